variable "instance_type" {
  description = "Type of the instances; it must be x86-64 (make dist). Types of the t family slow down when their credits are used up."
  type        = string
  default     = "m7i-flex.large"
}

variable "disk_gb" {
  description = "Size of the disk in GB: captures stay for firstflight_keep_captures_days."
  type        = number
  default     = 100
}

variable "reverse_dns" {
  description = "Whether the names are set. AWS accepts a name only when its A record has the address: set false at first, and true once DNS has it."
  type        = bool
  default     = true
}
