"""The parts of `make.py`: texts become sessions, sessions are served in time order, each request becomes a log line."""
