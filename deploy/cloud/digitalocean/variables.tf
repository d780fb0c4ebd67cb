variable "size" {
  description = "Size of the droplets, such as c-2 (2 dedicated processors, 4 GB); its disk must hold captures for firstflight_keep_captures_days."
  type        = string
}
