"""The load generator: a plan of requests, client processes that send it on time, and a file of what came back."""
