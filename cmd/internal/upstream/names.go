package upstream

import (
	"context"
	"net"
)

// Named reports whether the host is a name, whose addresses may change.
func (h Host) Named() bool {
	_, name, _, err := h.address()
	return err == nil && name != ""
}

// Lookup finds the addresses to dial of a host, a name or not. It fails, rather than return none,
// where a name is not known.
func (c *Cluster) Lookup(ctx context.Context, h Host) ([]string, error) {
	address, name, port, err := h.address()
	if err != nil || name == "" {
		return []string{address}, err
	}
	addrs, err := c.options.Load().Resolve(ctx, name)
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no address", Name: name, IsNotFound: true}
	}
	if err != nil {
		return nil, err
	}
	list := make([]string, len(addrs))
	for i, a := range addrs {
		list[i] = net.JoinHostPort(a.Unmap().String(), port)
	}
	return list, nil
}
