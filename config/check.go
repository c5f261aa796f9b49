package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// check looks for what is missing and for values that contradict each other. It says
// nothing about values that were refused by themselves.
func (d *decoder) check(doc document) {
	if doc.broken {
		return // what seems to be missing may be in the part that could not be read
	}
	d.checkShutdown()
	d.checkAuth()
	for i := range d.config.Upstreams {
		d.checkUpstream(&d.config.Upstreams[i])
	}
	if len(d.config.Upstreams) == 0 && !d.saidAbout("upstream") {
		d.complain("", span{}, "there is no upstream: no Postgres to send work to",
			"Write\n[upstream.main]\nurl = \"postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=disable\"")
	}
	for i := range d.config.Databases {
		d.checkDatabase(&d.config.Databases[i])
	}
	if len(d.config.Databases) == 0 && !d.saidAbout("database") {
		d.complain("", span{}, "there is no database: no client could connect",
			"For all databases of the upstream write\n[database.\"*\"]\nupstream = "+strconv.Quote(d.anUpstream()))
	}
	d.checkWorkload()
}

// saidAbout reports whether a section of the kind was refused.
func (d *decoder) saidAbout(kind string) bool {
	for name := range d.said {
		if name == kind || strings.HasPrefix(name, kind+".") {
			return true
		}
	}
	return false
}

// anUpstream is the name of an upstream for an example.
func (d *decoder) anUpstream() string {
	if len(d.config.Upstreams) > 0 {
		return d.config.Upstreams[0].Name
	}
	return "main"
}

// fine reports whether none of the keys was refused.
func (d *decoder) fine(keys ...string) bool {
	for _, k := range keys {
		if d.bad[k] {
			return false
		}
	}
	return true
}

// placeOf is where one of the keys is, the first that is written at all.
func (d *decoder) placeOf(keys ...string) span {
	for _, k := range keys {
		if at, ok := d.given[k]; ok {
			return at
		}
	}
	return span{}
}

func (d *decoder) checkShutdown() {
	c := d.config
	if !d.fine("shutdown_timeout", "drain_delay") || c.ShutdownTimeout.IsNone() || c.DrainDelay < c.ShutdownTimeout {
		return
	}
	key := "drain_delay"
	if _, ok := d.given[key]; !ok {
		key = "shutdown_timeout"
	}
	d.complain(key, d.placeOf(key), fmt.Sprintf("drain_delay %q takes up all of shutdown_timeout %q: no time is left for transactions to finish",
		c.DrainDelay.String(), c.ShutdownTimeout.String()), "Make drain_delay shorter or shutdown_timeout longer.")
}

func (d *decoder) checkAuth() {
	a := &d.config.Auth
	_, fileGiven := d.given["auth.auth_file"]
	if a.Type == Trust && !fileGiven {
		a.File = ""
	}
}

func (d *decoder) checkUpstream(u *Upstream) {
	section := dotted("upstream", u.Name)
	prefix := section + "."
	if _, ok := d.given[prefix+"url"]; !ok {
		d.complain(prefix+"url", d.placeOf(section), "is missing",
			`Write url = "postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=disable".`)
	}
	_, u.reserveGiven = d.given[prefix+"reserve"]
	if !d.fine(prefix+"budget", prefix+"reserve", prefix+"slots") || u.Budget.IsAuto() {
		return
	}
	budget := int(u.Budget)
	reserve, _ := u.reserveOf(budget)
	if reserve >= budget {
		d.complain(prefix+"reserve", d.placeOf(prefix+"reserve"), fmt.Sprintf("%d of a budget of %d leaves nothing for clients", reserve, budget),
			fmt.Sprintf("Write reserve = %d, or a larger budget.", max(0, min(3, budget-1))))
		return
	}
	if !u.Slots.IsAuto() && int(u.Slots) > budget-reserve {
		d.complain(prefix+"slots", d.placeOf(prefix+"slots"),
			fmt.Sprintf("%d transactions at once need more connections than budget - reserve = %d - %d = %d", u.Slots, budget, reserve, budget-reserve),
			fmt.Sprintf(`Write slots = %d, or "auto", or a larger budget.`, budget-reserve))
	}
}

func (d *decoder) checkDatabase(b *Database) {
	section := dotted("database", b.Name)
	key := section + ".upstream"
	at, given := d.given[key]
	switch {
	case given && !d.fine(key):
	case given && d.config.Upstream(b.Upstream) == nil:
		d.complain(key, at, strconv.Quote(b.Upstream)+" is not an upstream", d.upstreamAdvice(b.Upstream))
	case !given && len(d.config.Upstreams) == 1:
		b.Upstream = d.config.Upstreams[0].Name
	case !given && len(d.config.Upstreams) > 1:
		d.complain(key, d.placeOf(section), "is missing, and there is more than one upstream",
			"Write upstream = "+strconv.Quote(d.anUpstream())+".")
	}
}

// upstreamAdvice names the upstream that was meant.
func (d *decoder) upstreamAdvice(name string) string {
	var names []string
	for _, u := range d.config.Upstreams {
		if d.fine(dotted("upstream", u.Name)) {
			names = append(names, u.Name)
		}
	}
	if near := Nearest(name, names); near != "" {
		return "Did you mean " + strconv.Quote(near) + "?"
	}
	if len(names) == 0 {
		return "Write a section [" + dotted("upstream", name) + "]."
	}
	return "The upstreams are " + strings.Join(names, ", ") + "."
}

func (d *decoder) checkWorkload() {
	if w := d.config.Workloads[0]; w.Name != defaultWorkload && d.fine("workload.name") {
		d.complain("workload.name", d.placeOf("workload.name"), "a workload other than \"default\" is "+notYet, `Write name = "default".`)
	}
}

// warn collects what is right and perhaps not wanted.
func (c *Config) warn() {
	open := c.openToOthers()
	if c.Auth.Type == Trust && open != "" {
		c.warnings = append(c.warnings, `auth_type = "trust" lets in whoever reaches `+open+" as any role")
	}
	if c.Auth.Type == Password && open != "" {
		c.warnings = append(c.warnings, `auth_type = "password" sends passwords in clear to `+open+`; "scram-sha-256" does not`)
	}
	used := map[string]bool{}
	for _, b := range c.Databases {
		used[b.Upstream] = true
	}
	for _, u := range c.Upstreams {
		if !used[u.Name] {
			c.warnings = append(c.warnings, "no database uses upstream "+strconv.Quote(u.Name))
		}
	}
}

// openToOthers is the first TCP listener that other machines can reach, or "".
func (c *Config) openToOthers() string {
	for _, l := range c.Listen {
		if l.Network != "tcp" {
			continue
		}
		host, _, _ := net.SplitHostPort(l.Address)
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return l.Address
		}
	}
	return ""
}
