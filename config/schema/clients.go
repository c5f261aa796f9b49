package schema

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/values"
)

// unixClient stands for all clients that come by a Unix socket.
const unixClient = "unix"

// clients is a list of networks and addresses, and "unix".
func clients(m *Match) values.Type {
	var found []netip.Prefix
	unix := false
	add := func(v values.Value) *values.Complaint {
		if v.Kind == document.Text && v.Text == unixClient {
			unix = true
			return nil
		}
		p, c := network(v)
		if c == nil && slices.Contains(found, p) {
			c = &values.Complaint{Message: v.Shown() + " is in the list twice"}
		}
		if c == nil {
			found = append(found, p)
		}
		return c
	}
	get := func() []string {
		var texts []string
		for _, p := range m.Client {
			if p.IsSingleIP() {
				texts = append(texts, p.Addr().String())
			} else {
				texts = append(texts, p.String())
			}
		}
		if m.Unix {
			texts = append(texts, unixClient)
		}
		return texts
	}
	done := func() { m.Client, m.Unix = found, unix }
	k := values.List(`a list of addresses, networks and "unix"`, `["10.0.0.0/8"]`, "no client would match", add, done, get)
	set, written := k.Set, k.Get
	k.Set = func(v values.Value) *values.Complaint {
		found, unix = nil, false
		return set(v)
	}
	k.Get = func() string {
		if len(m.Client) == 0 && !m.Unix {
			return ""
		}
		return written()
	}
	return k
}

// network reads an address or a network. IPv4 within IPv6 becomes IPv4, as which such
// clients are looked up.
func network(v values.Value) (netip.Prefix, *values.Complaint) {
	if v.Kind != document.Text {
		return netip.Prefix{}, &values.Complaint{Message: v.Shown() + ` is neither an address, nor a network, nor "unix"`}
	}
	if ip, err := netip.ParseAddr(v.Text); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(v.Text)
	if err != nil {
		return p, &values.Complaint{
			Message: v.Shown() + ` is neither an address, nor a network, nor "unix"`,
			Advice:  `Write "10.1.2.3", "10.0.0.0/8", "fd00::/8" or "unix".`,
		}
	}
	if p != p.Masked() {
		return p, &values.Complaint{
			Message: v.Shown() + " is not a network: it has bits behind its first " + strconv.Itoa(p.Bits()),
			Advice:  "Write " + values.Quote(p.Masked().String()) + ".",
		}
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p, nil
}
