package hba

import (
	"net/netip"
	"strconv"
	"strings"
)

// reach is where clients of a rule come from.
type reach uint8

const (
	anywhere reach = iota // a local rule, or "all"
	network
	sameHost // one of this machine's addresses
	sameNet  // one of its networks
)

// network of a rule. Masks may have any bits, as in Postgres.
type addresses struct {
	reach      reach
	base, mask netip.Addr
	word       string // as the file names it, for SHOW
}

// keyword reads the words that stand for addresses.
func (a *addresses) keyword(t token) bool {
	switch {
	case t.is("all"):
		a.reach = anywhere
	case t.is("samehost"):
		a.reach = sameHost
	case t.is("samenet"):
		a.reach = sameNet
	default:
		return false
	}
	a.word = t.word
	return true
}

// number reads an address; slash says that the length of its mask was with it.
func (a *addresses) number(t token) (slash bool, bad *Problem) {
	a.reach = network
	text, length, slash := strings.Cut(t.word, "/")
	base, err := netip.ParseAddr(text)
	switch {
	case err != nil && looksNumeric(text):
		return slash, t.problem("invalid IP address %q", text)
	case err != nil:
		return slash, t.problem("pgweir does not look up host names: write the address of %q, or a network", text)
	case base.Zone() != "":
		return slash, t.problem("an address with a zone is not supported: %q", text)
	}
	a.base = base
	if !slash {
		return false, nil
	}
	bits, err := strconv.ParseUint(length, 10, 8)
	if err != nil || int(bits) > base.BitLen() {
		return slash, t.problem("invalid CIDR mask in address %q", t.word)
	}
	a.mask = maskOf(base, int(bits))
	return slash, nil
}

// looksNumeric reports whether a text can only have been meant as an address.
func looksNumeric(s string) bool {
	return s == "" || strings.Contains(s, ":") || strings.Trim(s, "0123456789.") == ""
}

// netmask reads the mask in the field behind an address.
func (a *addresses) netmask(t token) *Problem {
	mask, err := netip.ParseAddr(t.word)
	switch {
	case err != nil || mask.Zone() != "":
		return t.problem("invalid IP mask %q", t.word)
	case mask.BitLen() != a.base.BitLen():
		return t.problem("IP address and mask do not match")
	}
	a.mask = mask
	return nil
}

// maskOf is the mask with so many bits for addresses like a.
func maskOf(a netip.Addr, bits int) netip.Addr {
	b := a.AsSlice()
	for i := range b {
		n := min(max(bits-8*i, 0), 8)
		b[i] = byte(0xff << (8 - n))
	}
	mask, _ := netip.AddrFromSlice(b) // as long as a
	return mask
}

// holds reports whether a client's address is meant. own are this machine's.
func (a *addresses) holds(client netip.Addr, own func() []netip.Prefix) bool {
	switch a.reach {
	case anywhere:
		return true
	case network:
		return within(client, a.base, a.mask)
	}
	if own == nil {
		return false
	}
	for _, p := range own() {
		ip, bits := p.Addr().Unmap(), p.Bits()
		if p.Addr().Is4In6() {
			bits -= 96
		}
		if a.reach == sameHost {
			bits = ip.BitLen()
		}
		if ip.BitLen() == client.BitLen() && bits >= 0 && within(client, ip.WithZone(""), maskOf(ip, bits)) {
			return true
		}
	}
	return false
}

// within reports whether an address is base where the mask has bits.
func within(a, base, mask netip.Addr) bool {
	if a.BitLen() != base.BitLen() {
		return false
	}
	x, y, m := a.AsSlice(), base.AsSlice(), mask.AsSlice()
	for i := range m {
		if (x[i]^y[i])&m[i] != 0 {
			return false
		}
	}
	return true
}
