variable "machine_type" {
  description = "Type of the instances; it must be x86-64 (make dist), and not of shared processors."
  type        = string
  default     = "n2-standard-2"
}

variable "zone" {
  description = "Letter of the zone in each region."
  type        = string
  default     = "b"
}

variable "disk_gb" {
  description = "Size of the disk in GB: captures stay for firstflight_keep_captures_days."
  type        = number
  default     = 100
}

variable "reverse_dns" {
  description = "Whether the names are set. Google accepts a name only if its A record has the address and you have verified the domain: set false at first, and true later."
  type        = bool
  default     = true
}
