package config

import (
	"fmt"
	"strconv"
	"strings"
)

// check looks for what is missing and for values that contradict each other. It says
// nothing about values that were refused by themselves.
func (d *decoder) check() {
	d.checkClients()
	d.checkAddresses()
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
		d.checkPassword(&d.config.Databases[i])
	}
	if len(d.config.Databases) == 0 && !d.saidAbout("database") {
		d.complain("", span{}, "there is no database: no client could connect",
			"For all databases of the upstream write\n[database.\"*\"]\nupstream = "+strconv.Quote(d.anUpstream()))
	}
	d.checkWorkloads()
	d.checkRates()
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

// placeOf is where one of the keys is, the first that is written at all. What was typed at
// the console goes first: the file was right before.
func (d *decoder) placeOf(keys ...string) place {
	var found place
	for _, k := range keys {
		at, ok := d.given[k]
		switch {
		case !ok:
		case at.src.name == setSource:
			return at
		case found.src == nil:
			found = at
		}
	}
	return found
}

// checkClients sees to it that reserved clients leave room for others. The default gives
// way by itself.
func (d *decoder) checkClients() {
	c := d.config
	_, given := d.given["reserved_clients"]
	switch {
	case !d.fine("max_client_conn", "reserved_clients"):
	case !given:
		c.ReservedClients = min(c.ReservedClients, c.MaxClientConn/10)
	case c.ReservedClients >= c.MaxClientConn:
		d.complainAt("reserved_clients", d.placeOf("reserved_clients", "max_client_conn"), fmt.Sprintf("%d of max_client_conn = %d leaves nothing for other clients", c.ReservedClients, c.MaxClientConn),
			fmt.Sprintf("Write reserved_clients = %d, or a larger max_client_conn.", c.MaxClientConn/10))
	}
}

// checkAddresses looks for two that want the same address.
func (d *decoder) checkAddresses() {
	c := d.config
	if !d.fine("listen", "http", "admin_http") {
		return
	}
	taken := map[Listen]string{}
	for _, l := range c.Listen {
		taken[l] = "listen"
	}
	for _, h := range []struct {
		key string
		at  Listen
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

func (d *decoder) checkShutdown() {
	c := d.config
	if !d.fine("shutdown_timeout", "drain_delay") || c.ShutdownTimeout.IsNone() || c.DrainDelay < c.ShutdownTimeout {
		return
	}
	key := "drain_delay"
	if _, ok := d.given[key]; !ok {
		key = "shutdown_timeout"
	}
	d.complainAt(key, d.placeOf(key), fmt.Sprintf("drain_delay %q takes up all of shutdown_timeout %q: no time is left for transactions to finish",
		c.DrainDelay.String(), c.ShutdownTimeout.String()), "Make drain_delay shorter or shutdown_timeout longer.")
}

func (d *decoder) checkAuth() {
	a := &d.config.Auth
	_, fileGiven := d.given["auth.auth_file"]
	switch {
	case a.Type == Trust && !fileGiven:
		a.File = ""
	case a.Type != Trust && a.File == "" && a.User == "" && d.fine("auth.auth_file", "auth.auth_type"):
		d.complainAt("auth.auth_file", d.placeOf("auth.auth_file"), fmt.Sprintf(`is "none", and auth_type = %q needs roles with passwords`, a.Type),
			`Write auth_file = "userlist.txt".`)
	}
}

func (d *decoder) checkUpstream(u *Upstream) {
	section := dotted("upstream", u.Name)
	prefix := section + "."
	if _, ok := d.given[prefix+"url"]; !ok {
		d.complainAt(prefix+"url", d.placeOf(section), "is missing",
			`Write url = "postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=disable".`)
	}
	_, u.reserveGiven = d.given[prefix+"reserve"]
	if !d.fine(prefix+"budget", prefix+"reserve", prefix+"slots", prefix+"instances") || u.Budget.IsAuto() {
		return
	}
	d.checkBudget(u, prefix)
}

// checkBudget sees to it that a budget given as a number suffices for what is made of it.
func (d *decoder) checkBudget(u *Upstream, prefix string) {
	budget, slots, per := u.each(int(u.Budget)), u.each(int(u.Slots)), ""
	if u.Instances > 1 {
		per = fmt.Sprintf(" for each of %d instances", u.Instances)
	}
	if int(u.Budget) < u.Instances {
		d.complainAt(prefix+"budget", d.placeOf(prefix+"budget", prefix+"instances"), fmt.Sprintf("%d connections are fewer than %d instances", u.Budget, u.Instances),
			fmt.Sprintf("Write budget = %d or more.", u.Instances))
		return
	}
	reserve, _ := u.reserveOf(budget)
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
func (d *decoder) checkPassword(b *Database) {
	prefix := dotted(databaseKind, b.Name) + "."
	user, file, command := prefix+"user", prefix+"password_file", prefix+"password_command"
	switch {
	case !d.fine(user, file, command):
	case b.PasswordFile != "" && b.PasswordCommand != "":
		d.complainAt(command, d.placeOf(command), "password_file says already where the password is", "Keep one of the two.")
	case b.User == "" && b.PasswordFile != "":
		d.complainAt(file, d.placeOf(file), "which role's password? There is no user", `Write user = "app", the role of the server connections.`)
	case b.User == "" && b.PasswordCommand != "":
		d.complainAt(command, d.placeOf(command), "which role's password? There is no user", `Write user = "app", the role of the server connections.`)
	}
}

func (d *decoder) checkDatabase(b *Database) {
	section := dotted("database", b.Name)
	key := section + ".upstream"
	at, given := d.given[key]
	switch {
	case given && !d.fine(key):
	case given && d.config.Upstream(b.Upstream) == nil:
		d.complainAt(key, at, strconv.Quote(b.Upstream)+" is not an upstream", d.upstreamAdvice(b.Upstream))
	case !given && len(d.config.Upstreams) == 1:
		b.Upstream = d.config.Upstreams[0].Name
	case !given && len(d.config.Upstreams) > 1:
		d.complainAt(key, d.placeOf(section), "is missing, and there is more than one upstream",
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
