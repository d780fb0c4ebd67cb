"""Downloads under capture: the download stage.

files/          the files to download: the list or the draw, what is known of names, and addresses
option_sets     the sets of TCP options and QUIC stacks to compare
shared_limits   limits that several vantage points share
transfers/      namespaces, captures and clients for a download
clients/        a program per client; `contract` describes requests and answers
results/        outcomes, flows in the captures, and rows
contract/       Rust: requests, answers and the loop of clients
native/         Rust: the QUIC client
"""
