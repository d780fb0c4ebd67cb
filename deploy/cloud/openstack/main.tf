# Vantage points in an OpenStack cloud, in a separate network per region. Not applied here (../README.md).
# Credentials are in the environment: OS_CLOUD and clouds.yaml, or the variables of the cloud's openrc file.

terraform {
  required_version = ">= 1.8"
  required_providers {
    openstack = {
      source  = "terraform-provider-openstack/openstack"
      version = "3.4.0" # the one that `make cloud-test` builds
    }
  }
}

locals {
  regions   = distinct([for machine in var.machines : machine.region])
  everybody = "0.0.0.0/0"
  ssh_v4    = [for network in var.ssh_from : network if !strcontains(network, ":")]
  probes = merge([
    for name, machine in var.machines : { for ports in machine.udp_ports : "${name} ${ports}" => [name, split("-", ports)] }
  ]...)
  icmp = { unreachable = 3, time_exceeded = 11 }
}

data "openstack_images_image_v2" "debian" {
  for_each = toset(local.regions)

  region      = each.key
  name        = var.image
  most_recent = true
}

data "openstack_networking_network_v2" "external" {
  for_each = toset(local.regions)

  region   = each.key
  name     = var.external_network
  external = true
}

resource "openstack_networking_network_v2" "vantage" {
  for_each = toset(local.regions)

  region = each.key
  name   = "firstflight"
}

resource "openstack_networking_subnet_v2" "vantage" {
  for_each = toset(local.regions)

  region     = each.key
  name       = "firstflight"
  network_id = openstack_networking_network_v2.vantage[each.key].id
  cidr       = "10.80.0.0/24"
}

resource "openstack_networking_router_v2" "vantage" {
  for_each = toset(local.regions)

  region              = each.key
  name                = "firstflight"
  external_network_id = data.openstack_networking_network_v2.external[each.key].id
}

resource "openstack_networking_router_interface_v2" "vantage" {
  for_each = toset(local.regions)

  region    = each.key
  router_id = openstack_networking_router_v2.vantage[each.key].id
  subnet_id = openstack_networking_subnet_v2.vantage[each.key].id
}

# Everything may leave: a new group has these rules by itself.
resource "openstack_networking_secgroup_v2" "vantage" {
  for_each = var.machines

  region      = each.value.region
  name        = each.key
  description = "firstflight: vantage point ${each.key}"

  lifecycle {
    precondition {
      condition     = length(local.ssh_v4) > 0
      error_message = "The machines have IPv4 addresses only: ssh_from needs an IPv4 network."
    }
  }
}

resource "openstack_networking_secgroup_rule_v2" "ssh" {
  for_each = { for pair in setproduct(keys(var.machines), local.ssh_v4) : join(" ", pair) => pair }

  region            = var.machines[each.value[0]].region
  security_group_id = openstack_networking_secgroup_v2.vantage[each.value[0]].id
  description       = "SSH, for the playbook"
  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "tcp"
  port_range_min    = 22
  port_range_max    = 22
  remote_ip_prefix  = each.value[1]
}

resource "openstack_networking_secgroup_rule_v2" "contact" {
  for_each = var.machines

  region            = var.machines[each.key].region
  security_group_id = openstack_networking_secgroup_v2.vantage[each.key].id
  description       = "contact page"
  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "tcp"
  port_range_min    = 80
  port_range_max    = 80
  remote_ip_prefix  = local.everybody
}

# The group may forget a probe before its answer arrives. An answer may also come from another address.
resource "openstack_networking_secgroup_rule_v2" "probes" {
  for_each = local.probes

  region            = var.machines[each.value[0]].region
  security_group_id = openstack_networking_secgroup_v2.vantage[each.value[0]].id
  description       = "answers to probes"
  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "udp"
  port_range_min    = tonumber(each.value[1][0])
  port_range_max    = tonumber(each.value[1][1])
  remote_ip_prefix  = local.everybody
}

# Of ICMP, port_range_min is the type and port_range_max the code. The provider
# requires both, and does not send a zero, so that the rule matches every code.
resource "openstack_networking_secgroup_rule_v2" "icmp" {
  for_each = { for pair in setproduct(keys(var.machines), keys(local.icmp)) : join(" ", pair) => pair }

  region            = var.machines[each.value[0]].region
  security_group_id = openstack_networking_secgroup_v2.vantage[each.value[0]].id
  description       = "ICMP: ${each.value[1]}"
  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "icmp"
  port_range_min    = local.icmp[each.value[1]]
  port_range_max    = 0
  remote_ip_prefix  = local.everybody
}

resource "openstack_networking_port_v2" "vantage" {
  for_each = var.machines

  region             = each.value.region
  name               = each.key
  network_id         = openstack_networking_network_v2.vantage[each.value.region].id
  security_group_ids = [openstack_networking_secgroup_v2.vantage[each.key].id]

  fixed_ip {
    subnet_id = openstack_networking_subnet_v2.vantage[each.value.region].id
  }
}

resource "openstack_compute_instance_v2" "vantage" {
  for_each = var.machines

  region      = each.value.region
  name        = each.key
  image_id    = data.openstack_images_image_v2.debian[each.value.region].id
  flavor_name = var.flavor
  user_data   = var.user_data

  network {
    port = openstack_networking_port_v2.vantage[each.key].id
  }

  # A new key or image must not replace a machine: its captures would be lost.
  lifecycle {
    ignore_changes = [image_id, user_data]
  }
}

# Addresses outlive their machine, so that block lists and complaints that name one stay correct. Neutron writes
# both directions into DNS, where the project has the zone and the cloud permits it.
resource "openstack_networking_floatingip_v2" "vantage" {
  for_each = var.machines

  region      = each.value.region
  pool        = var.external_network
  description = "firstflight: ${each.value.reverse_dns}"
  dns_name    = var.reverse_dns ? split(".", each.value.reverse_dns)[0] : null
  dns_domain  = var.reverse_dns ? "${replace(each.value.reverse_dns, "/^[^.]+[.]/", "")}." : null
}

resource "openstack_networking_floatingip_associate_v2" "vantage" {
  for_each = var.machines

  region      = each.value.region
  floating_ip = openstack_networking_floatingip_v2.vantage[each.key].address
  port_id     = openstack_networking_port_v2.vantage[each.key].id

  # An address can be given to a machine only when its network leads outside.
  depends_on = [openstack_networking_router_interface_v2.vantage]
}

output "addresses" {
  description = "Addresses by vantage point: ssh_host in vantage_points.toml, and what to name in reverse DNS."
  value = {
    for name, machine in var.machines : name => {
      ipv4        = openstack_networking_floatingip_v2.vantage[name].address
      ipv6        = null
      reverse_dns = machine.reverse_dns
    }
  }
}
