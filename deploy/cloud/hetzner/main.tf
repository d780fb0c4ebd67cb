# Vantage points at Hetzner Cloud. Not applied here (../README.md). The token is in the environment: HCLOUD_TOKEN.

terraform {
  required_version = ">= 1.8"
  required_providers {
    hcloud = {
      source  = "hetznercloud/hcloud"
      version = "~> 1.58"
    }
  }
}

locals {
  everybody = ["0.0.0.0/0", "::/0"]
}

# Addresses outlive their machine, so that block lists and complaints that name one stay correct.
resource "hcloud_primary_ip" "v4" {
  for_each = var.machines

  name          = "${each.key}-v4"
  type          = "ipv4"
  location      = each.value.region
  assignee_type = "server"
  auto_delete   = false
}

resource "hcloud_primary_ip" "v6" {
  for_each = var.machines

  name          = "${each.key}-v6"
  type          = "ipv6"
  location      = each.value.region
  assignee_type = "server"
  auto_delete   = false
}

resource "hcloud_firewall" "vantage" {
  for_each = var.machines

  name = each.key

  rule {
    description = "SSH, for the playbook"
    direction   = "in"
    protocol    = "tcp"
    port        = "22"
    source_ips  = var.ssh_from
  }

  rule {
    description = "contact page"
    direction   = "in"
    protocol    = "tcp"
    port        = "80"
    source_ips  = local.everybody
  }

  # The firewall may forget a probe before its answer arrives. An answer may also come from another address.
  dynamic "rule" {
    for_each = each.value.udp_ports
    content {
      description = "answers to probes"
      direction   = "in"
      protocol    = "udp"
      port        = rule.value
      source_ips  = local.everybody
    }
  }

  rule {
    description = "errors about probes"
    direction   = "in"
    protocol    = "icmp"
    source_ips  = local.everybody
  }
}

resource "hcloud_server" "vantage" {
  for_each = var.machines

  name         = each.key
  server_type  = var.server_type
  image        = "debian-12"
  location     = each.value.region
  user_data    = var.user_data
  firewall_ids = [hcloud_firewall.vantage[each.key].id]

  public_net {
    ipv4 = hcloud_primary_ip.v4[each.key].id
    ipv6 = hcloud_primary_ip.v6[each.key].id
  }

  # A new key or image must not replace a machine: its captures would be lost.
  lifecycle {
    ignore_changes = [image, user_data]
  }
}

resource "hcloud_rdns" "v4" {
  for_each = var.machines

  primary_ip_id = hcloud_primary_ip.v4[each.key].id
  ip_address    = hcloud_primary_ip.v4[each.key].ip_address
  dns_ptr       = each.value.reverse_dns
}

resource "hcloud_rdns" "v6" {
  for_each = var.machines

  primary_ip_id = hcloud_primary_ip.v6[each.key].id
  ip_address    = hcloud_server.vantage[each.key].ipv6_address
  dns_ptr       = each.value.reverse_dns
}

output "addresses" {
  description = "Addresses by vantage point: ssh_host and sources in vantage_points.toml, and records of the name in DNS."
  value = {
    for name, machine in var.machines : name => {
      ipv4        = hcloud_primary_ip.v4[name].ip_address
      ipv6        = hcloud_server.vantage[name].ipv6_address
      reverse_dns = machine.reverse_dns
    }
  }
}
