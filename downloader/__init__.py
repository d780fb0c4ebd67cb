"""Downloads under capture: the download stage.

option_sets     the sets of TCP options and QUIC stacks to compare
session         namespaces, captures and clients for a download
clients/        a program per client; `contract` describes requests and answers
worker          one running client
flows, rows     data from captures
draw            the files to download
survey          TCP options and HTTP/3 of names, known before the draw
resolving       the address of a name, just before its downloads
shared_limits   limits that several vantage points share
contract/       Rust: requests, answers and the loop of clients
native/         Rust: the QUIC client
"""
