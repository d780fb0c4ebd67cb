# `tofu test`: what is planned for two machines in two regions, with the provider's schema and no cloud.

mock_provider "openstack" {}

variables {
  machines = {
    hamburg = { region = "one", reverse_dns = "hamburg.m.example.org", udp_ports = ["61000-61063", "61064-61127"] }
    kyoto   = { region = "two", reverse_dns = "kyoto.m.example.org", udp_ports = ["50000-50031"] }
  }
  ssh_from         = ["192.0.2.0/24", "198.51.100.7/32", "2001:db8::/32"]
  user_data        = "#cloud-config\n"
  flavor           = "m1.medium"
  external_network = "public"
}

run "machines" {
  command = plan

  assert {
    condition     = { for name, one in openstack_compute_instance_v2.vantage : name => one.region } == { hamburg = "one", kyoto = "two" }
    error_message = "Each machine is in its region."
  }

  assert {
    condition     = length(openstack_networking_router_v2.vantage) == 2
    error_message = "Each region has a network."
  }
}

run "firewall" {
  command = plan

  assert {
    condition     = toset([for rule in openstack_networking_secgroup_rule_v2.ssh : rule.remote_ip_prefix]) == toset(["192.0.2.0/24", "198.51.100.7/32"])
    error_message = "SSH is for the named networks."
  }

  assert {
    condition     = toset([for rule in openstack_networking_secgroup_rule_v2.probes : "${rule.port_range_min}-${rule.port_range_max}"]) == toset(["50000-50031", "61000-61063", "61064-61127"])
    error_message = "The source ports of probes are open."
  }

  assert {
    condition     = toset([for rule in openstack_networking_secgroup_rule_v2.icmp : rule.port_range_min]) == toset([3, 11])
    error_message = "Errors about probes come in."
  }

  assert {
    condition     = toset([for rule in openstack_networking_secgroup_rule_v2.contact : rule.port_range_min]) == toset([80])
    error_message = "The contact page is open."
  }
}

run "reverse_dns" {
  command = plan

  assert {
    condition     = openstack_networking_floatingip_v2.vantage["hamburg"].dns_name == "hamburg" && openstack_networking_floatingip_v2.vantage["hamburg"].dns_domain == "m.example.org."
    error_message = "The name is split at its first label."
  }
}

run "no_reverse_dns" {
  command = plan

  variables {
    reverse_dns = false
  }

  assert {
    condition     = openstack_networking_floatingip_v2.vantage["kyoto"].description == "firstflight: kyoto.m.example.org"
    error_message = "The description keeps the name."
  }
}

run "ssh_by_ipv6_alone" {
  command = plan

  variables {
    ssh_from = ["2001:db8::/32"]
  }

  expect_failures = [openstack_networking_secgroup_v2.vantage]
}

run "ssh_from_everybody" {
  command = plan

  variables {
    ssh_from = ["0.0.0.0/0"]
  }

  expect_failures = [var.ssh_from]
}

run "no_machines" {
  command = plan

  variables {
    machines = {}
  }

  expect_failures = [var.machines]
}
