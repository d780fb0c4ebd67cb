variable "server_type" {
  description = "Type of the servers, such as cx33 (4 processors, 8 GB); it must be x86-64 (make dist)."
  type        = string
}
