# Variables of every module here, which has a link to this file. `python -m deploy.cloud.machines` writes their
# values from vantage_points.toml.

variable "machines" {
  description = "Vantage points by name: region, name of the addresses in reverse DNS, source ports of UDP probes (FIRST-LAST)."
  type = map(object({
    region      = string
    reverse_dns = string
    udp_ports   = list(string)
  }))

  validation {
    condition     = length(var.machines) > 0 && alltrue(flatten([for one in var.machines : [for ports in one.udp_ports : can(regex("^[0-9]+-[0-9]+$", ports))]]))
    error_message = "Name at least one machine; its udp_ports are ranges such as 61000-61063."
  }
}

variable "ssh_from" {
  description = "Networks that may connect to port 22."
  type        = list(string)

  validation {
    condition     = length(var.ssh_from) > 0 && alltrue([for network in var.ssh_from : can(cidrhost(network, 0)) && !endswith(network, "/0")])
    error_message = "Name the networks that you connect from, as 192.0.2.0/24; not everybody."
  }
}

variable "user_data" {
  description = "User data for cloud-init (deploy/cloud/user_data.py)."
  type        = string
}
