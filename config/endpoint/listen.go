package endpoint

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/values"
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

// IsLoopback reports whether only this machine can connect to l. A name counts only if it
// is localhost: what others mean is up to a resolver.
func (l Listen) IsLoopback() bool {
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

// Listeners is the list of addresses and directories. A directory's socket carries the
// number of the first TCP port, which is why its name is only known at the end.
func Listeners(target *[]Listen) values.Type {
	k := values.Type{Admits: `a list of "host:port" and directories for a Unix socket`}
	k.Get = func() string {
		texts := make([]string, len(*target))
		for i, l := range *target {
			texts[i] = l.Address
			if l.Network == "unix" {
				texts[i] = filepath.Dir(l.Address)
			}
		}
		return values.QuoteList(texts)
	}
	k.Set = func(v values.Value) *values.Complaint {
		if v.Kind == document.Text {
			if v.Env == "" {
				return k.Must(v, listFix(v))
			}
			v.Items = []document.Node{v.Node}
		} else if v.Kind != document.List {
			return k.Must(v, "")
		}
		if len(v.Items) == 0 {
			return &values.Complaint{Message: "the list is empty: no client could connect", Fix: `["127.0.0.1:6432"]`}
		}
		list := make([]Listen, 0, len(v.Items))
		var problems *values.Complaint
		for i, item := range v.Items {
			l, problem := listener(values.Value{Node: item, Env: v.Env})
			if problem == nil && duplicate(list, l) {
				problem = &values.Complaint{Message: values.Value{Node: item, Env: v.Env}.Shown() + " is in the list twice"}
			}
			if problem != nil {
				problem.Element = i + 1
				problems = problems.And(problem)
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
func listFix(v values.Value) string {
	if _, problem := listener(v); problem != nil {
		return ""
	}
	return "[" + strconv.Quote(v.Text) + "]"
}

// listener reads one element.
func listener(v values.Value) (Listen, *values.Complaint) {
	bad := func(what, advice string) (Listen, *values.Complaint) {
		return Listen{}, &values.Complaint{Message: v.Shown() + " " + what, Advice: advice}
	}
	if v.Kind != document.Text || strings.ContainsRune(v.Text, 0) {
		return bad("is neither \"host:port\" nor a directory", "")
	}
	if strings.HasPrefix(v.Text, "/") {
		return Listen{"unix", filepath.Clean(v.Text)}, nil
	}
	host, digits, err := net.SplitHostPort(v.Text)
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

// HTTPAddress is a place for HTTP, or "none". A socket is the path of its file, and only
// for the private kind, which does not listen to other machines.
func HTTPAddress(target *Listen, private bool) values.Type {
	k := values.Type{Admits: `"none" or "host:port"`, Get: func() string { return values.Quote(target.String()) }}
	if private {
		k.Admits = `"none", a "host:port" of this machine only, or the absolute path of a Unix socket`
	}
	k.Set = func(v values.Value) *values.Complaint {
		if v.Kind == document.Text && v.Text == "none" {
			*target = Listen{}
			return nil
		}
		l, problem := listener(v)
		switch {
		case v.Kind != document.Text || v.Text == "":
			return k.Must(v, "")
		case problem != nil:
			problem.Message, problem.Advice = v.Shown()+" is not "+k.Admits, ""
			return problem
		case l.Network == "unix" && !private:
			return k.Must(v, "")
		case l.Network == "unix" && (strings.HasSuffix(v.Text, "/") || len(l.Address) > longestSocket):
			return &values.Complaint{Message: fmt.Sprintf("%s is not the path of a file of at most %d bytes", v.Shown(), longestSocket)}
		case private && !l.IsLoopback():
			_, port, _ := net.SplitHostPort(l.Address)
			return &values.Complaint{Message: v.Shown() + " could be reached by other machines", Fix: values.Quote("127.0.0.1:" + port)}
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
func placeSockets(list []Listen) *values.Complaint {
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
			return &values.Complaint{
				Message: fmt.Sprintf("the socket's path would have %d bytes, and no more than %d are possible", len(socket), longestSocket),
				Element: i + 1,
			}
		}
		list[i].Address = socket
	}
	return nil
}
