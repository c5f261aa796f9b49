package config

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// list is an array whose elements are read one by one; add says what is wrong with one. An
// empty list is refused with why it is wrong, or accepted if empty is "".
func list(admits, example, empty string, add func(v value) *complaint, done func(), get func() []string) kind {
	k := kind{admits: admits, get: func() string { return quotedList(get()) }}
	k.set = func(v value) *complaint {
		items := v.items
		switch {
		case v.kind == unstable.String && v.env != "":
			items = []node{v.node}
		case v.kind == unstable.String && add(v) == nil:
			return k.must(v, "["+quoted(v.text)+"]")
		case v.kind != unstable.Array:
			return k.must(v, example)
		case len(items) == 0 && empty != "":
			return &complaint{message: "the list is empty: " + empty}
		}
		var problems *complaint
		for i, item := range items {
			if c := add(value{node: item, env: v.env, dir: v.dir}); c != nil {
				c.element = i + 1
				problems = problems.and(c)
			}
		}
		if problems == nil {
			done()
		}
		return problems
	}
	return k
}

// quotedList is a list of texts as TOML.
func quotedList(texts []string) string {
	quotes := make([]string, len(texts))
	for i, text := range texts {
		quotes[i] = quoted(text)
	}
	return "[" + strings.Join(quotes, ", ") + "]"
}

// names is a list of names without repetition, possibly empty.
func names(target *[]string, admits string) kind {
	return textList(target, admits, "[]", "", 63)
}

// globs is a list of patterns; an empty one is refused, because nobody would match.
func globs(target *[]string, admits string) kind {
	k := textList(target, admits, `["web-*"]`, "no client would match", 255)
	k.get = func() string {
		if len(*target) == 0 {
			return ""
		}
		return quotedList(*target)
	}
	return k
}

// textList is a list of texts without repetition.
func textList(target *[]string, admits, example, empty string, longest int) kind {
	var found []string
	add := func(v value) *complaint {
		switch {
		case v.kind != unstable.String || !isName(v.text, longest):
			return &complaint{message: v.shown() + " is not a name of 1 to " + strconv.Itoa(longest) + " bytes without control characters"}
		case slices.Contains(found, v.text):
			return &complaint{message: v.shown() + " is in the list twice"}
		}
		found = append(found, v.text)
		return nil
	}
	k := list(admits, example, empty, add, func() { *target = found }, func() []string { return *target })
	set := k.set
	k.set = func(v value) *complaint {
		found = []string{}
		return set(v)
	}
	return k
}

// unixClient stands for all clients that come by a Unix socket.
const unixClient = "unix"

// clients is a list of networks and addresses, and "unix".
func clients(m *Match) kind {
	var found []netip.Prefix
	unix := false
	add := func(v value) *complaint {
		if v.kind == unstable.String && v.text == unixClient {
			unix = true
			return nil
		}
		p, c := network(v)
		if c == nil && slices.Contains(found, p) {
			c = &complaint{message: v.shown() + " is in the list twice"}
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
	k := list(`a list of addresses, networks and "unix"`, `["10.0.0.0/8"]`, "no client would match", add, done, get)
	set, written := k.set, k.get
	k.set = func(v value) *complaint {
		found, unix = nil, false
		return set(v)
	}
	k.get = func() string {
		if len(m.Client) == 0 && !m.Unix {
			return ""
		}
		return written()
	}
	return k
}

// network reads an address or a network. IPv4 within IPv6 becomes IPv4, as which such
// clients are looked up.
func network(v value) (netip.Prefix, *complaint) {
	if v.kind != unstable.String {
		return netip.Prefix{}, &complaint{message: v.shown() + ` is neither an address, nor a network, nor "unix"`}
	}
	if ip, err := netip.ParseAddr(v.text); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(v.text)
	if err != nil {
		return p, &complaint{
			message: v.shown() + ` is neither an address, nor a network, nor "unix"`,
			advice:  `Write "10.1.2.3", "10.0.0.0/8", "fd00::/8" or "unix".`,
		}
	}
	if p != p.Masked() {
		return p, &complaint{
			message: v.shown() + " is not a network: it has bits behind its first " + strconv.Itoa(p.Bits()),
			advice:  "Write " + quoted(p.Masked().String()) + ".",
		}
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p, nil
}
