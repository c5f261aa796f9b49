package upstream

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// take takes what an attempt tells. It returns what the Dial returns, or nothing to
// go on.
func (d *dial) take(ctx context.Context, e event) (*Session, error) {
	k, now := e.k, time.Now()
	if e.stage == connected {
		if d.front == k {
			d.connectedAt(ctx, k, now)
		}
		return nil, nil
	}
	d.running--
	d.c.end(k)
	if d.front == k {
		d.front = nil
	}
	switch e.stage {
	case resolved:
		d.insert(k, e.addrs, now)
	case served:
		return d.weigh(e), nil
	case refused:
		return nil, d.refuse(ctx, e, now)
	}
	return nil, nil
}

// insert puts the addresses of a name in its place.
func (d *dial) insert(name *candidate, addrs []Place, now time.Time) {
	d.c.answered(d.o, name, false, false)
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	if i := slices.Index(addrs, d.c.current); i > 0 {
		addrs = slices.Insert(slices.Delete(addrs, i, i+1), 0, d.c.current)
	}
	others := d.queue
	d.queue = nil
	for _, p := range addrs {
		d.add(&candidate{place: p, key: p.Address}, now)
	}
	d.queue = append(d.queue, others...)
	d.sort()
}

// weigh returns the session of an event if it is what the Dial returns.
func (d *dial) weigh(e event) *Session {
	d.c.answered(d.o, e.k, e.known, e.role.standby)
	if d.o.Attrs.fits(e.role) || e.k.rank != promising {
		return d.win(e)
	}
	if d.spare == nil {
		d.spare = &e
	} else {
		discard(e.session)
	}
	return nil
}

// win makes an event's session the result.
func (d *dial) win(e event) *Session {
	e.session.Generation = d.c.serves(d.o, e.k)
	return e.session
}

// refuse notes why a candidate does not serve. The error is one that ends the
// search.
func (d *dial) refuse(ctx context.Context, e event, now time.Time) error {
	k := e.k
	d.reasons[k.place] = e.err
	if wrong, ok := e.err.(wrongRole); ok {
		d.c.answered(d.o, k, true, wrong.role.standby)
		if d.o.Attrs.excludes(wrong.role.standby) {
			d.later = append(d.later, &candidate{place: k.place, key: k.key, due: now.Add(roleAge)})
		}
		return nil
	}
	if !down(e.err) && ctx.Err() == nil {
		d.c.answered(d.o, k, false, false)
		if d.o.Attrs == Any || d.c.isCurrent(k.place) {
			return e.err
		}
		return nil
	}
	if ctx.Err() != nil {
		d.reasons[k.place] = context.Cause(ctx)
	}
	if cancelled(ctx) {
		return nil // the caller's wish says nothing about the host
	}
	if !k.given {
		d.c.failed(d.o, k, d.reasons[k.place])
	}
	return nil
}

// failure says of every host why it does not serve.
func (d *dial) failure(ctx context.Context) error {
	for _, k := range d.queue {
		if d.reasons[k.place] == nil {
			d.reasons[k.place] = notTried{context.Cause(ctx)}
		}
	}
	all := &HostsError{}
	for p, err := range d.reasons {
		all.Hosts = append(all.Hosts, &HostError{p, err})
	}
	slices.SortFunc(all.Hosts, func(a, b *HostError) int {
		return cmp.Or(
			cmp.Compare(slices.Index(d.o.Hosts, a.Where.Host), slices.Index(d.o.Hosts, b.Where.Host)),
			cmp.Compare(a.Where.Address, b.Where.Address),
		)
	})
	return all
}

// settle waits for the end of the attempts that are no longer of use, and of all
// sessions but the one that was found.
func (d *dial) settle(found *Session) {
	if d.spare != nil && d.spare.session != found {
		discard(d.spare.session)
	}
	for d.running > 0 {
		e := <-d.events
		if e.stage == connected {
			continue
		}
		d.running--
		d.c.end(e.k)
		if e.stage == served {
			discard(e.session)
		}
	}
}
