//! Pure encoding and parsing of QUIC, TLS and TCP: no sockets, no clock.
