package decode

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/endpoint"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// check looks for what is missing and for values that contradict each other. It says
// nothing about values that were refused by themselves.
func (d *Decoder) check() {
	d.checkClients()
	d.checkAddresses()
	d.checkShutdown()
	d.checkTLS()
	d.checkAuth()
	for i := range d.File.Upstreams {
		d.checkUpstream(&d.File.Upstreams[i])
	}
	if len(d.File.Upstreams) == 0 && !d.saidAbout("upstream") {
		d.complain("", document.Span{}, "there is no upstream: no Postgres to send work to",
			"Write\n[upstream.main]\nurl = \"postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full\"")
	}
	for i := range d.File.Databases {
		d.checkDatabase(&d.File.Databases[i])
		d.checkPassword(&d.File.Databases[i])
	}
	if len(d.File.Databases) == 0 && !d.saidAbout("database") {
		d.complain("", document.Span{}, "there is no database: no client could connect",
			"For all databases of the upstream write\n[database.\"*\"]\nupstream = "+strconv.Quote(d.anUpstream()))
	}
	d.checkWorkloads()
	d.checkRates()
}

// saidAbout reports whether a section of the kind was refused.
func (d *Decoder) saidAbout(kind string) bool {
	for name := range d.said {
		if name == kind || strings.HasPrefix(name, kind+".") {
			return true
		}
	}
	return false
}

// anUpstream is the name of an upstream for an example.
func (d *Decoder) anUpstream() string {
	if len(d.File.Upstreams) > 0 {
		return d.File.Upstreams[0].Name
	}
	return "main"
}

// placeOf is where one of the keys is, the first that is written at all. What was typed at
// the console goes first: the file was right before.
func (d *Decoder) placeOf(keys ...string) place {
	var found place
	for _, k := range keys {
		at, ok := d.given[k]
		switch {
		case !ok:
		case at.src.Name == setSource:
			return at
		case found.src == nil:
			found = at
		}
	}
	return found
}

// checkClients sees to it that reserved clients leave room for others. The default gives
// way by itself.
func (d *Decoder) checkClients() {
	c := d.File
	_, given := d.given["reserved_clients"]
	switch {
	case !d.Fine("max_client_conn", "reserved_clients"):
	case !given:
		c.ReservedClients = min(c.ReservedClients, c.MaxClientConn/10)
	case c.ReservedClients >= c.MaxClientConn:
		d.complainAt("reserved_clients", d.placeOf("reserved_clients", "max_client_conn"), fmt.Sprintf("%d of max_client_conn = %d leaves nothing for other clients", c.ReservedClients, c.MaxClientConn),
			fmt.Sprintf("Write reserved_clients = %d, or a larger max_client_conn.", c.MaxClientConn/10))
	}
}

// checkAddresses looks for two that want the same address.
func (d *Decoder) checkAddresses() {
	c := d.File
	if !d.Fine("listen", "http", "admin_http") {
		return
	}
	taken := map[endpoint.Listen]string{}
	for _, l := range c.Listen {
		taken[l] = "listen"
	}
	for _, h := range []struct {
		key string
		at  endpoint.Listen
	}{{"http", c.HTTP}, {"admin_http", c.AdminHTTP}} {
		if other := taken[h.at]; other != "" && h.at.IsSet() {
			key := h.key
			if _, given := d.given[key]; !given {
				key = other
			}
			d.complainAt(key, d.placeOf(key), fmt.Sprintf("%s and %s both want %s", other, h.key, h.at), `Choose another address for one of them, or write `+h.key+` = "none".`)
		}
		taken[h.at] = h.key
	}
}

func (d *Decoder) checkShutdown() {
	c := d.File
	if !d.Fine("shutdown_timeout", "drain_delay") || c.ShutdownTimeout.IsNone() || c.DrainDelay < c.ShutdownTimeout {
		return
	}
	key := "drain_delay"
	if _, ok := d.given[key]; !ok {
		key = "shutdown_timeout"
	}
	d.complainAt(key, d.placeOf(key), fmt.Sprintf("drain_delay %q takes up all of shutdown_timeout %q: no time is left for transactions to finish",
		c.DrainDelay.String(), c.ShutdownTimeout.String()), "Make drain_delay shorter or shutdown_timeout longer.")
}

func (d *Decoder) checkUpstream(u *schema.Upstream) {
	section := document.Dotted("upstream", u.Name)
	prefix := section + "."
	if _, ok := d.given[prefix+"url"]; !ok {
		d.complainAt(prefix+"url", d.placeOf(section), "is missing",
			`Write url = "postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full".`)
	}
	_, u.ReserveGiven = d.given[prefix+"reserve"]
	if !d.Fine(prefix+"budget", prefix+"reserve", prefix+"slots", prefix+"instances") || u.Budget.IsAuto() {
		return
	}
	d.checkBudget(u, prefix)
}

// checkBudget sees to it that a budget given as a number suffices for what is made of it.
func (d *Decoder) checkBudget(u *schema.Upstream, prefix string) {
	budget, slots, per := u.Each(int(u.Budget)), u.Each(int(u.Slots)), ""
	if u.Instances > 1 {
		per = fmt.Sprintf(" for each of %d instances", u.Instances)
	}
	if int(u.Budget) < u.Instances {
		d.complainAt(prefix+"budget", d.placeOf(prefix+"budget", prefix+"instances"), fmt.Sprintf("%d connections are fewer than %d instances", u.Budget, u.Instances),
			fmt.Sprintf("Write budget = %d or more.", u.Instances))
		return
	}
	reserve, _ := u.ReserveOf(budget)
	if reserve >= budget {
		d.complainAt(prefix+"reserve", d.placeOf(prefix+"reserve", prefix+"budget", prefix+"instances"), fmt.Sprintf("%d of a budget of %d leaves nothing for clients%s", reserve, budget, per),
			fmt.Sprintf("Write reserve = %d, or a larger budget.", max(0, min(3, budget-1))))
		return
	}
	if !u.Slots.IsAuto() && slots > budget-reserve {
		d.complainAt(prefix+"slots", d.placeOf(prefix+"slots", prefix+"budget", prefix+"reserve", prefix+"instances"),
			fmt.Sprintf("%d transactions at once need more connections than budget - reserve = %d - %d = %d%s", slots, budget, reserve, budget-reserve, per),
			fmt.Sprintf(`Write slots = %d, or "auto", or a larger budget.`, (budget-reserve)*u.Instances))
	}
}

// checkPassword sees to it that it is clear whose password it is, and where.
func (d *Decoder) checkPassword(b *schema.Database) {
	prefix := document.Dotted(schema.DatabaseKind, b.Name) + "."
	user, file, command := prefix+"user", prefix+"password_file", prefix+"password_command"
	switch {
	case !d.Fine(user, file, command):
	case b.PasswordFile != "" && b.PasswordCommand != "":
		d.complainAt(command, d.placeOf(command), "password_file says already where the password is", "Keep one of the two.")
	case b.User == "" && b.PasswordFile != "":
		d.complainAt(file, d.placeOf(file), "which role's password? There is no user", `Write user = "app", the role of the server connections.`)
	case b.User == "" && b.PasswordCommand != "":
		d.complainAt(command, d.placeOf(command), "which role's password? There is no user", `Write user = "app", the role of the server connections.`)
	}
}

func (d *Decoder) checkDatabase(b *schema.Database) {
	section := document.Dotted("database", b.Name)
	key := section + ".upstream"
	at, given := d.given[key]
	switch {
	case given && !d.Fine(key):
	case given && d.File.Upstream(b.Upstream) == nil:
		d.complainAt(key, at, strconv.Quote(b.Upstream)+" is not an upstream", d.upstreamAdvice(b.Upstream))
	case !given && len(d.File.Upstreams) == 1:
		b.Upstream = d.File.Upstreams[0].Name
	case !given && len(d.File.Upstreams) > 1:
		d.complainAt(key, d.placeOf(section), "is missing, and there is more than one upstream",
			"Write upstream = "+strconv.Quote(d.anUpstream())+".")
	}
}

// upstreamAdvice names the upstream that was meant.
func (d *Decoder) upstreamAdvice(name string) string {
	var names []string
	for _, u := range d.File.Upstreams {
		if d.Fine(document.Dotted("upstream", u.Name)) {
			names = append(names, u.Name)
		}
	}
	if near := values.Nearest(name, names); near != "" {
		return "Did you mean " + strconv.Quote(near) + "?"
	}
	if len(names) == 0 {
		return "Write a section [" + document.Dotted("upstream", name) + "]."
	}
	return "The upstreams are " + strings.Join(names, ", ") + "."
}
