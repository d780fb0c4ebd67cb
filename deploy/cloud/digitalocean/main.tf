# Vantage points at DigitalOcean. Not applied here (../README.md). The token is in the environment: DIGITALOCEAN_TOKEN.

terraform {
  required_version = ">= 1.8"
  required_providers {
    digitalocean = {
      source  = "digitalocean/digitalocean"
      version = "~> 2.0"
    }
  }
}

locals {
  everybody = ["0.0.0.0/0", "::/0"]
}

# A droplet sends from its own addresses, not from reserved ones. Its name becomes the name in reverse DNS.
resource "digitalocean_droplet" "vantage" {
  for_each = var.machines

  name      = each.value.reverse_dns
  region    = each.value.region
  size      = var.size
  image     = "debian-12-x64"
  ipv6      = true
  user_data = var.user_data

  # A new key or image must not replace a machine: its captures would be lost.
  lifecycle {
    ignore_changes = [image, user_data]
  }
}

resource "digitalocean_firewall" "vantage" {
  for_each = var.machines

  name        = "firstflight-${each.key}"
  droplet_ids = [digitalocean_droplet.vantage[each.key].id]

  # SSH, for the playbook.
  inbound_rule {
    protocol         = "tcp"
    port_range       = "22"
    source_addresses = var.ssh_from
  }

  # The contact page.
  inbound_rule {
    protocol         = "tcp"
    port_range       = "80"
    source_addresses = local.everybody
  }

  # The firewall may forget a probe before its answer arrives. An answer may also come from another address.
  dynamic "inbound_rule" {
    for_each = each.value.udp_ports
    content {
      protocol         = "udp"
      port_range       = inbound_rule.value
      source_addresses = local.everybody
    }
  }

  # Errors about probes.
  inbound_rule {
    protocol         = "icmp"
    source_addresses = local.everybody
  }

  # Without these rules nothing leaves.
  outbound_rule {
    protocol              = "tcp"
    port_range            = "1-65535"
    destination_addresses = local.everybody
  }

  outbound_rule {
    protocol              = "udp"
    port_range            = "1-65535"
    destination_addresses = local.everybody
  }

  outbound_rule {
    protocol              = "icmp"
    destination_addresses = local.everybody
  }
}

output "addresses" {
  description = "Addresses by vantage point: ssh_host and sources in vantage_points.toml, and records of the name in DNS."
  value = {
    for name, machine in var.machines : name => {
      ipv4        = digitalocean_droplet.vantage[name].ipv4_address
      ipv6        = digitalocean_droplet.vantage[name].ipv6_address
      reverse_dns = machine.reverse_dns
    }
  }
}
