"""How clients estimate the RTT: parts of measures."""
