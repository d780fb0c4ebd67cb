variable "image" {
  description = "Image with Debian 12 and cloud-init, by its name in the cloud."
  type        = string
  default     = "Debian 12"
}

variable "flavor" {
  description = "Flavor of the machines, by its name in the cloud."
  type        = string
}

variable "external_network" {
  description = "Network that floating addresses come from, by its name in the cloud."
  type        = string
}

variable "reverse_dns" {
  description = "Whether Neutron names the floating addresses in DNS. Not every cloud can: set false there, and ask its operators for the names of the output addresses."
  type        = bool
  default     = true
}
