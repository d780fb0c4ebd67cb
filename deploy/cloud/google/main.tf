# Vantage points in Google Cloud, in a separate network per region. Not applied here (../README.md). Credentials and the
# project are in the environment: GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_PROJECT.

terraform {
  required_version = ">= 1.8"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 7.0"
    }
  }
}

locals {
  regions   = distinct([for machine in var.machines : machine.region])
  everybody = "0.0.0.0/0"
  ssh_v4    = [for network in var.ssh_from : network if !strcontains(network, ":")]
}

resource "google_compute_network" "vantage" {
  for_each = toset(local.regions)

  name                    = "firstflight-${each.key}"
  auto_create_subnetworks = false
}

resource "google_compute_subnetwork" "vantage" {
  for_each = toset(local.regions)

  name          = "firstflight-${each.key}"
  region        = each.key
  network       = google_compute_network.vantage[each.key].id
  ip_cidr_range = "10.80.0.0/24"
}

# Everything may leave: a network permits it by itself.
resource "google_compute_firewall" "ssh" {
  for_each = toset(local.regions)

  name          = "firstflight-ssh-${each.key}"
  description   = "SSH, for the playbook"
  network       = google_compute_network.vantage[each.key].id
  direction     = "INGRESS"
  source_ranges = local.ssh_v4

  allow {
    protocol = "tcp"
    ports    = ["22"]
  }

  lifecycle {
    precondition {
      condition     = length(local.ssh_v4) > 0
      error_message = "The machines have IPv4 only: name a network of IPv4 in ssh_from."
    }
  }
}

resource "google_compute_firewall" "contact" {
  for_each = toset(local.regions)

  name          = "firstflight-contact-${each.key}"
  description   = "contact page"
  network       = google_compute_network.vantage[each.key].id
  direction     = "INGRESS"
  source_ranges = [local.everybody]

  allow {
    protocol = "tcp"
    ports    = ["80"]
  }
}

# The firewall may forget a probe before its answer arrives. An answer may also come from another address.
resource "google_compute_firewall" "probes" {
  for_each = var.machines

  name          = "firstflight-probes-${each.key}"
  description   = "answers to probes"
  network       = google_compute_network.vantage[each.value.region].id
  direction     = "INGRESS"
  source_ranges = [local.everybody]
  target_tags   = [each.key]

  allow {
    protocol = "udp"
    ports    = each.value.udp_ports
  }
}

resource "google_compute_firewall" "icmp" {
  for_each = toset(local.regions)

  name          = "firstflight-icmp-${each.key}"
  description   = "errors about probes"
  network       = google_compute_network.vantage[each.key].id
  direction     = "INGRESS"
  source_ranges = [local.everybody]

  allow {
    protocol = "icmp"
  }
}

# Addresses outlive their machine, so that block lists and complaints that name one stay correct.
resource "google_compute_address" "vantage" {
  for_each = var.machines

  name        = "firstflight-${each.key}"
  description = each.value.reverse_dns
  region      = each.value.region
}

resource "google_compute_instance" "vantage" {
  for_each = var.machines

  name         = each.key
  machine_type = var.machine_type
  zone         = "${each.value.region}-${var.zone}"
  tags         = [each.key]

  boot_disk {
    initialize_params {
      image = "debian-cloud/debian-12"
      size  = var.disk_gb
    }
  }

  network_interface {
    subnetwork = google_compute_subnetwork.vantage[each.value.region].id

    access_config {
      nat_ip                 = google_compute_address.vantage[each.key].address
      public_ptr_domain_name = var.reverse_dns ? "${each.value.reverse_dns}." : null
    }
  }

  # Google's image of Debian has no cloud-init. Once installed, it reads `user-data` at the next start.
  metadata = {
    user-data      = var.user_data
    startup-script = "command -v cloud-init >/dev/null || { apt-get update && apt-get install --yes cloud-init && reboot; }"
  }

  # A new key or image must not replace a machine: its captures would be lost.
  lifecycle {
    ignore_changes = [boot_disk[0].initialize_params[0].image, metadata]
  }
}

output "addresses" {
  description = "Addresses by vantage point: ssh_host in vantage_points.toml, and records of the name in DNS."
  value = {
    for name, machine in var.machines : name => {
      ipv4        = google_compute_address.vantage[name].address
      ipv6        = null
      reverse_dns = machine.reverse_dns
    }
  }
}
