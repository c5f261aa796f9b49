package endpoint

import (
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/config/values"
)

// Host is one of the places where a cluster may be, in the words of [net.Dial].
type Host struct {
	Network string // "tcp" or "unix"
	Address string // "host:port", or the path of the socket
}

// String is the address.
func (h Host) String() string { return h.Address }

// IsLocal reports whether what goes there never leaves this machine.
func (h Host) IsLocal() bool { return Listen(h).IsLoopback() }

// maxHosts bounds the hosts of a URL.
const maxHosts = 16

// split undoes what pair has done: the host as a URL has it, and its port.
func (h Host) split() (host, port string) {
	if h.Network == "unix" {
		dir, file := filepath.Split(h.Address)
		return filepath.Clean(dir), strings.TrimPrefix(file, ".s.PGSQL.")
	}
	host, port, _ = net.SplitHostPort(h.Address)
	return host, port
}

// places are the hosts of a URL, as the part behind the @ where that is possible, and the
// parameters that are needed besides.
func (u URL) places() (place string, parameters []string) {
	var texts, hosts, ports []string
	simple := true
	for _, h := range u.Hosts {
		host, port := h.split()
		texts, hosts, ports = append(texts, h.Address), append(hosts, escaped(host)), append(ports, port)
		simple = simple && h.Network == "tcp"
	}
	if simple {
		return strings.Join(texts, ","), nil
	}
	return "", []string{"host=" + strings.Join(hosts, ","), "port=" + strings.Join(ports, ",")}
}

// escaped is a text for the value of a parameter. libpq takes a plus sign for itself.
func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// piece is a decoded part of a URL and its place there.
type piece struct {
	text     string
	from, to int
}

// hosts reads the list between the @ and the path.
func (p *urlParser) hosts(from, to int) {
	named, ported := false, false
	for from <= to {
		end := from + untilAny(p.text[from:to], ",")
		colon := end
		if i := strings.LastIndexByte(p.text[from:end], ':'); i >= 0 && !strings.Contains(p.text[from+i:end], "]") {
			colon = from + i
		}
		host := p.host(p.decode(from, colon, "the host"), from, colon)
		p.names = append(p.names, piece{host, from, colon})
		p.ports = append(p.ports, piece{p.text[min(colon+1, end):end], min(colon+1, end), end})
		named, ported = named || host != "", ported || end > colon+1
		from = end + 1
	}
	if !named && len(p.names) == 1 {
		p.names = nil
	}
	if !ported {
		p.ports = nil
	}
}

// host checks a host and takes the brackets off an IPv6 address.
func (p *urlParser) host(host string, from, to int) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
		if ip := net.ParseIP(host); ip == nil || inner == host {
			p.complain(from, to, "the host is not an IPv6 address in brackets", "Write [::1].")
		}
	} else if host != "" && !isDirectory(host) && !isHostname(host) {
		p.complain(from, to, "the host is neither a name nor an address nor a directory", encodeAdvice)
	}
	return host
}

// isDirectory reports whether a host is the directory of a Unix socket. A comma would
// separate it into two.
func isDirectory(host string) bool {
	return strings.HasPrefix(host, "/") && !strings.ContainsFunc(host, values.IsControl) && !strings.Contains(host, ",")
}

// hostList reads the parameter host, which takes the place of what stands behind the @.
func (p *urlParser) hostList(text string, from, to int) {
	p.names = nil
	for host := range strings.SplitSeq(text, ",") {
		if !isDirectory(host) && !isHostname(host) && net.ParseIP(host) == nil {
			p.complain(from, to, "the host is neither a name nor an address nor a directory", "")
		}
		p.names = append(p.names, piece{host, from, to})
	}
}

// pair gives every host its port: there is one port for all, or one for each. Without any
// host that is only said if all else is right.
func (p *urlParser) pair(right bool) {
	names, ports := p.names, p.ports
	switch {
	case len(names) == 0 && !right:
		return
	case len(names) == 0:
		p.complain(0, len(p.text), "names no host", "Write postgres://USER@HOST/DATABASE, or ?host=/DIRECTORY for a Unix socket.")
		return
	case len(names) > maxHosts:
		p.complain(names[maxHosts].from, names[maxHosts].to, "names more than "+strconv.Itoa(maxHosts)+" hosts", "")
		return
	case len(ports) > 1 && len(ports) != len(names):
		p.complain(0, len(p.text), strconv.Itoa(len(names))+" hosts and "+strconv.Itoa(len(ports))+" ports do not fit together", "Write one port for all, or one for each.")
		return
	}
	if len(ports) == 0 {
		ports = []piece{{}} // the default for all
	}
	numbers := make([]int, len(ports))
	for i, port := range ports {
		numbers[i] = p.port(port)
	}
	for i, name := range names {
		if name.text == "" {
			p.complain(0, len(p.text), "names no host", "Write HOST1:PORT1,HOST2:PORT2, without an empty one.")
			continue
		}
		p.address(name.text, numbers[min(i, len(numbers)-1)])
	}
}

// defaultServerPort is where Postgres listens.
const defaultServerPort = 5432

// port reads a port; an empty one is the default, as in libpq.
func (p *urlParser) port(text piece) int {
	if text.text == "" {
		return defaultServerPort
	}
	n, err := strconv.ParseUint(text.text, 10, 16)
	if err != nil || n == 0 {
		p.complain(text.from, text.to, "the port is not a number from 1 to 65535", encodeAdvice)
	}
	return int(n)
}

// address adds a host to the URL.
func (p *urlParser) address(name string, port int) {
	digits := strconv.Itoa(port)
	if !strings.HasPrefix(name, "/") {
		p.url.Hosts = append(p.url.Hosts, Host{"tcp", net.JoinHostPort(name, digits)})
		return
	}
	socket := filepath.Join(name, ".s.PGSQL."+digits)
	if len(socket) > longestSocket {
		p.complain(0, len(p.text), "the socket's path is longer than "+strconv.Itoa(longestSocket)+" bytes", "")
	}
	p.url.Hosts = append(p.url.Hosts, Host{"unix", socket})
}
