# Vantage points at AWS, in a separate network per region. Not applied here (../README.md). Credentials are in
# the environment: AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.

terraform {
  required_version = ">= 1.8"
  required_providers {
    # Since version 6 each resource names its region, so that one module has machines in several.
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
    }
  }
}

provider "aws" {
  region = sort(local.regions)[0]
}

locals {
  regions   = distinct([for machine in var.machines : machine.region])
  ssh_v4    = [for network in var.ssh_from : network if !strcontains(network, ":")]
  ssh_v6    = [for network in var.ssh_from : network if strcontains(network, ":")]
  named     = var.reverse_dns ? var.machines : {}
  debian    = "136693071363" # Debian's own account
  icmp_v4   = { unreachable = 3, time_exceeded = 11 }
  icmp_v6   = { unreachable = 1, too_big = 2, time_exceeded = 3 }
  everybody = "0.0.0.0/0"
}

data "aws_ami" "debian" {
  for_each = toset(local.regions)

  region      = each.key
  owners      = [local.debian]
  most_recent = true

  filter {
    name   = "name"
    values = ["debian-12-amd64-*"]
  }
}

resource "aws_vpc" "vantage" {
  for_each = toset(local.regions)

  region                           = each.key
  cidr_block                       = "10.80.0.0/24"
  assign_generated_ipv6_cidr_block = true
  tags                             = { Name = "firstflight" }
}

resource "aws_internet_gateway" "vantage" {
  for_each = toset(local.regions)

  region = each.key
  vpc_id = aws_vpc.vantage[each.key].id
}

resource "aws_subnet" "vantage" {
  for_each = toset(local.regions)

  region          = each.key
  vpc_id          = aws_vpc.vantage[each.key].id
  cidr_block      = aws_vpc.vantage[each.key].cidr_block
  ipv6_cidr_block = cidrsubnet(aws_vpc.vantage[each.key].ipv6_cidr_block, 8, 0)
}

resource "aws_route_table" "vantage" {
  for_each = toset(local.regions)

  region = each.key
  vpc_id = aws_vpc.vantage[each.key].id

  route {
    cidr_block = local.everybody
    gateway_id = aws_internet_gateway.vantage[each.key].id
  }

  route {
    ipv6_cidr_block = "::/0"
    gateway_id      = aws_internet_gateway.vantage[each.key].id
  }
}

resource "aws_route_table_association" "vantage" {
  for_each = toset(local.regions)

  region         = each.key
  subnet_id      = aws_subnet.vantage[each.key].id
  route_table_id = aws_route_table.vantage[each.key].id
}

resource "aws_security_group" "vantage" {
  for_each = var.machines

  region      = each.value.region
  name        = each.key
  description = "firstflight: vantage point ${each.key}"
  vpc_id      = aws_vpc.vantage[each.value.region].id

  ingress {
    description      = "SSH, for the playbook"
    protocol         = "tcp"
    from_port        = 22
    to_port          = 22
    cidr_blocks      = local.ssh_v4
    ipv6_cidr_blocks = local.ssh_v6
  }

  ingress {
    description      = "contact page"
    protocol         = "tcp"
    from_port        = 80
    to_port          = 80
    cidr_blocks      = [local.everybody]
    ipv6_cidr_blocks = ["::/0"]
  }

  # The group may forget a probe before its answer arrives. An answer may also come from another address.
  dynamic "ingress" {
    for_each = each.value.udp_ports
    content {
      description      = "answers to probes"
      protocol         = "udp"
      from_port        = tonumber(split("-", ingress.value)[0])
      to_port          = tonumber(split("-", ingress.value)[1])
      cidr_blocks      = [local.everybody]
      ipv6_cidr_blocks = ["::/0"]
    }
  }

  # Of ICMP, from_port is the type, and to_port the code: -1 is any.
  dynamic "ingress" {
    for_each = local.icmp_v4
    content {
      description = "ICMP: ${ingress.key}"
      protocol    = "icmp"
      from_port   = ingress.value
      to_port     = -1
      cidr_blocks = [local.everybody]
    }
  }

  dynamic "ingress" {
    for_each = local.icmp_v6
    content {
      description      = "ICMPv6: ${ingress.key}"
      protocol         = "icmpv6"
      from_port        = ingress.value
      to_port          = -1
      ipv6_cidr_blocks = ["::/0"]
    }
  }

  egress {
    description      = "everything"
    protocol         = "-1"
    from_port        = 0
    to_port          = 0
    cidr_blocks      = [local.everybody]
    ipv6_cidr_blocks = ["::/0"]
  }
}

resource "aws_instance" "vantage" {
  for_each = var.machines

  region                 = each.value.region
  ami                    = data.aws_ami.debian[each.value.region].id
  instance_type          = var.instance_type
  subnet_id              = aws_subnet.vantage[each.value.region].id
  vpc_security_group_ids = [aws_security_group.vantage[each.key].id]
  ipv6_address_count     = 1
  user_data              = var.user_data
  tags                   = { Name = each.key }

  metadata_options {
    http_tokens = "required"
  }

  root_block_device {
    volume_size = var.disk_gb
    encrypted   = true
  }

  # A new key or image must not replace a machine: its captures would be lost.
  lifecycle {
    ignore_changes = [ami, user_data]
  }
}

# Addresses outlive their machine, so that block lists and complaints that name one stay correct.
resource "aws_eip" "vantage" {
  for_each = var.machines

  region = each.value.region
  domain = "vpc"
  tags   = { Name = each.key }
}

resource "aws_eip_association" "vantage" {
  for_each = var.machines

  region        = each.value.region
  allocation_id = aws_eip.vantage[each.key].allocation_id
  instance_id   = aws_instance.vantage[each.key].id
}

# AWS has none for IPv6 addresses, except by its support.
resource "aws_eip_domain_name" "vantage" {
  for_each = local.named

  region        = each.value.region
  allocation_id = aws_eip.vantage[each.key].allocation_id
  domain_name   = each.value.reverse_dns
}

output "addresses" {
  description = "Addresses by vantage point: ssh_host in vantage_points.toml, and records of the name in DNS."
  value = {
    for name, machine in var.machines : name => {
      ipv4        = aws_eip.vantage[name].public_ip
      ipv6        = one(aws_instance.vantage[name].ipv6_addresses)
      reverse_dns = machine.reverse_dns
    }
  }
}
