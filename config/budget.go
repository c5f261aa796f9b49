package config

import (
	"fmt"
	"strconv"
	"time"
)

// Facts is what Postgres says about the room it has.
type Facts struct {
	MaxConnections      int // max_connections
	SuperuserReserved   int // superuser_reserved_connections
	ReservedConnections int // reserved_connections; 0 before Postgres 16
	OtherBackends       int // client backends that are not pgweir's own
	RoleLimit           int // CONNECTION LIMIT of the role; negative: none
}

// leastRate is the least that ConnectRate is by itself, for all instances together: servers move
// between keys by logins, and a few per second that cost Postgres some milliseconds each are no
// burden to the smallest.
const leastRate = 20

// room is what max_connections leaves to pgweir.
func (f Facts) room() int {
	return f.MaxConnections - f.SuperuserReserved - f.ReservedConnections - f.OtherBackends
}

// roomText is room as a sum.
func (f Facts) roomText() string {
	return fmt.Sprintf("%d - %d - %d - %d", f.MaxConnections, f.SuperuserReserved, f.ReservedConnections, f.OtherBackends)
}

// Budget is how one process uses the connections to one upstream. Reserve + Slots <=
// Connections.
type Budget struct {
	Connections int      // at least 1
	Reserve     int      // at least 0
	Users       int      // of the reserve for the reserve_users: all but pgweir's own connection
	Slots       int      // at least 1
	ConnectRate int      // logins begun per second, at least 1
	Sum         string   // where Connections comes from: "0.7 x (100 - 3 - 0 - 4) = 65"
	Notes       []string // what had to give way, and what will not work; usually empty
}

// Budget works out the part of one process in the budget of an upstream, an index into
// Upstreams. What is meant for several instances is divided by their number and rounded
// down, but to no less than 1.
func (c *Config) Budget(upstream int, f Facts) Budget {
	u := &c.Upstreams[upstream]
	var b Budget
	if u.Budget.IsAuto() {
		b.auto(f)
	} else {
		b.fixed(int(u.Budget), f)
	}
	b.divide(u.Instances)
	reserve, note := u.ReserveOf(b.Connections)
	if reserve >= b.Connections {
		note = fmt.Sprintf("reserve %d leaves nothing of a budget of %d: it is %d now", reserve, b.Connections, b.Connections-1)
		reserve = b.Connections - 1
	}
	b.note(note)
	b.Reserve = reserve
	if len(u.ReserveUsers) > 0 {
		b.Users = max(0, reserve-1)
	}
	b.Slots = b.Connections - reserve
	if slots := u.Each(int(u.Slots)); !u.Slots.IsAuto() && slots > b.Slots {
		b.note(fmt.Sprintf("slots %d are more than budget - reserve = %d: it is %d now", slots, b.Slots, b.Slots))
	} else if !u.Slots.IsAuto() {
		b.Slots = slots
		if int(u.Slots) < u.Instances {
			b.note(fmt.Sprintf("slots %d are fewer than %d instances: together they let in more", u.Slots, u.Instances))
		}
	}
	b.ConnectRate = max(b.Connections, u.Each(leastRate))
	if !u.ConnectRate.IsAuto() {
		b.ConnectRate = u.Each(int(u.ConnectRate))
	}
	return b
}

// divide takes the part of one of several instances.
func (b *Budget) divide(instances int) {
	if instances <= 1 {
		return
	}
	n := b.Connections / instances
	b.Sum += fmt.Sprintf("; / %d instances = %d", instances, n)
	if n < 1 {
		n = 1
		b.Sum += ", but at least 1"
		b.note(fmt.Sprintf("%d connections are fewer than %d instances: together they open more", b.Connections, instances))
	}
	b.Connections = n
}

// note adds a note that is not empty.
func (b *Budget) note(text string) {
	if text != "" {
		b.Notes = append(b.Notes, text)
	}
}

// auto takes 0.7 of the room, so that Postgres is still reachable for others.
func (b *Budget) auto(f Facts) {
	n := max(0, f.room()) * 7 / 10
	b.Sum = "0.7 x (" + f.roomText() + ") = " + strconv.Itoa(n)
	if f.RoleLimit >= 0 && n > f.RoleLimit {
		n = f.RoleLimit
		b.Sum += ", but no more than the role's CONNECTION LIMIT of " + strconv.Itoa(n)
	}
	if n < 1 {
		n = 1
		b.Sum += ", but at least 1"
		b.note("Postgres has no connection to spare: clients will be refused")
	}
	b.Connections = n
}

// fixed takes what the file says, and tells if Postgres will not give it.
func (b *Budget) fixed(n int, f Facts) {
	b.Connections = n
	b.Sum = strconv.Itoa(n) + ", as configured"
	if room := f.room(); n > room {
		b.note(fmt.Sprintf("the budget is %d, and Postgres has room for %s = %d", n, f.roomText(), room))
	}
	if f.RoleLimit >= 0 && n > f.RoleLimit {
		b.note(fmt.Sprintf("the budget is %d, and the role's CONNECTION LIMIT is %d", n, f.RoleLimit))
	}
}

// Capacity is Little's law: the transactions per second that slots can do when each takes
// this long. It is 0 for a duration of 0.
func Capacity(slots int, each time.Duration) float64 {
	if each <= 0 {
		return 0
	}
	return float64(slots) / each.Seconds()
}
