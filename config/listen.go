package config

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Listen is one place where clients connect, in the words of [net.Listen].
type Listen struct {
	Network string // "tcp" or "unix"
	Address string // "host:port", or the path of the socket
}

// String is the address, or "none".
func (l Listen) String() string {
	if !l.IsSet() {
		return "none"
	}
	return l.Address
}

// IsSet reports whether there is a place at all.
func (l Listen) IsSet() bool { return l.Network != "" }

// isLoopback reports whether only this machine can connect to l. A name counts only if it
// is localhost: what others mean is up to a resolver.
func (l Listen) isLoopback() bool {
	if l.Network != "tcp" {
		return true
	}
	host, _, _ := net.SplitHostPort(l.Address)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// defaultPort is where pgweir listens: PgBouncer's port, for a drop-in replacement.
const defaultPort = 6432

// longestSocket is what fits into sockaddr_un with its final zero byte.
const longestSocket = 107

// listeners is the list of addresses and directories. A directory's socket carries the
// number of the first TCP port, which is why its name is only known at the end.
func listeners(target *[]Listen) kind {
	k := kind{admits: `a list of "host:port" and directories for a Unix socket`}
	k.get = func() string {
		texts := make([]string, len(*target))
		for i, l := range *target {
			texts[i] = l.Address
			if l.Network == "unix" {
				texts[i] = filepath.Dir(l.Address)
			}
		}
		return quotedList(texts)
	}
	k.set = func(v value) *complaint {
		if v.kind == unstable.String {
			if v.env == "" {
				return k.must(v, listFix(v))
			}
			v.items = []node{v.node}
		} else if v.kind != unstable.Array {
			return k.must(v, "")
		}
		if len(v.items) == 0 {
			return &complaint{message: "the list is empty: no client could connect", fix: `["127.0.0.1:6432"]`}
		}
		list := make([]Listen, 0, len(v.items))
		var problems *complaint
		for i, item := range v.items {
			l, problem := listener(value{node: item, env: v.env})
			if problem == nil && duplicate(list, l) {
				problem = &complaint{message: value{node: item, env: v.env}.shown() + " is in the list twice"}
			}
			if problem != nil {
				problem.element = i + 1
				problems = problems.and(problem)
				continue
			}
			list = append(list, l)
		}
		if problems != nil {
			return problems
		}
		*target = list
		return placeSockets(list)
	}
	return k
}

// listFix puts the only element into a list, if it is one.
func listFix(v value) string {
	if _, problem := listener(v); problem != nil {
		return ""
	}
	return "[" + strconv.Quote(v.text) + "]"
}

// listener reads one element.
func listener(v value) (Listen, *complaint) {
	bad := func(what, advice string) (Listen, *complaint) {
		return Listen{}, &complaint{message: v.shown() + " " + what, advice: advice}
	}
	if v.kind != unstable.String || strings.ContainsRune(v.text, 0) {
		return bad("is neither \"host:port\" nor a directory", "")
	}
	if strings.HasPrefix(v.text, "/") {
		return Listen{"unix", filepath.Clean(v.text)}, nil
	}
	host, digits, err := net.SplitHostPort(v.text)
	if err != nil {
		return bad("is not \"host:port\"", `Write "127.0.0.1:6432", or "[::1]:6432", or an absolute directory for a Unix socket.`)
	}
	if port, err := strconv.ParseUint(digits, 10, 16); err != nil || port == 0 {
		return bad("has no port from 1 to 65535", "")
	}
	if host == "*" {
		return bad("is not an address", `For all addresses write ":`+digits+`", for IPv4 only "0.0.0.0:`+digits+`".`)
	}
	if _, err := netip.ParseAddr(host); host != "" && err != nil && !isHostname(host) {
		return bad("has a host that is neither an address nor a name", "")
	}
	return Listen{"tcp", net.JoinHostPort(host, digits)}, nil
}

// httpAddress is a place for HTTP, or "none". A socket is the path of its file, and only
// for the private kind, which does not listen to other machines.
func httpAddress(target *Listen, private bool) kind {
	k := kind{admits: `"none" or "host:port"`, get: func() string { return quoted(target.String()) }}
	if private {
		k.admits = `"none", a "host:port" of this machine only, or the absolute path of a Unix socket`
	}
	k.set = func(v value) *complaint {
		if v.kind == unstable.String && v.text == "none" {
			*target = Listen{}
			return nil
		}
		l, problem := listener(v)
		switch {
		case v.kind != unstable.String || v.text == "":
			return k.must(v, "")
		case problem != nil:
			problem.message, problem.advice = v.shown()+" is not "+k.admits, ""
			return problem
		case l.Network == "unix" && !private:
			return k.must(v, "")
		case l.Network == "unix" && (strings.HasSuffix(v.text, "/") || len(l.Address) > longestSocket):
			return &complaint{message: fmt.Sprintf("%s is not the path of a file of at most %d bytes", v.shown(), longestSocket)}
		case private && !l.isLoopback():
			_, port, _ := net.SplitHostPort(l.Address)
			return &complaint{message: v.shown() + " could be reached by other machines", fix: quoted("127.0.0.1:" + port)}
		}
		*target = l
		return nil
	}
	return k
}

// isHostname reports whether every label is made of what DNS and hosts files allow.
func isHostname(host string) bool {
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 || strings.Trim(label,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return false
		}
	}
	return len(host) <= 253
}

// duplicate reports whether the list has l already.
func duplicate(list []Listen, l Listen) bool {
	for _, other := range list {
		if other == l {
			return true
		}
	}
	return false
}

// placeSockets turns directories into paths of sockets.
func placeSockets(list []Listen) *complaint {
	port := strconv.Itoa(defaultPort)
	for _, l := range list {
		if l.Network == "tcp" {
			_, port, _ = net.SplitHostPort(l.Address) // listener has split it before
			break
		}
	}
	for i, l := range list {
		if l.Network != "unix" {
			continue
		}
		socket := filepath.Join(l.Address, ".s.PGSQL."+port)
		if len(socket) > longestSocket {
			return &complaint{
				message: fmt.Sprintf("the socket's path would have %d bytes, and no more than %d are possible", len(socket), longestSocket),
				element: i + 1,
			}
		}
		list[i].Address = socket
	}
	return nil
}
