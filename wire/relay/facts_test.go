package relay

import (
	"slices"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// reports are the ParameterStatus messages in what a client was told, in their order, and
// what was told beside them.
func reports(t *testing.T, out []byte) (list []Param, types string) {
	t.Helper()
	for len(out) > 0 {
		size := 1 + int(out[1])<<24 + int(out[2])<<16 + int(out[3])<<8 + int(out[4])
		if out[0] == wire.MsgParameterStatus {
			p, err := wire.ParseParameterStatus(out[5:size])
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, p)
		}
		types += string(out[0])
		out = out[size:]
	}
	return list, types
}

// replaced gives the rig a server with other facts in the place of all that it had, as after
// an upgrade.
func (r *rig) replaced(status ...Param) {
	r.servers = []*rigServer{{s: NewServer(r.shared, 0, status), b: wiretest.NewBackend(wiretest.BackendOptions{})}}
	r.next = 0
}

// A client is told before its next answer what is different on the servers of now: once, and
// not what it has set itself.
func TestFactsAreFresh(t *testing.T) {
	select1 := wire.AppendQuery(nil, "select 1")
	before := []Param{{Name: "server_version", Value: "15.2"}, {Name: "TimeZone", Value: "UTC"}, {Name: "DateStyle", Value: "ISO, MDY"}, {Name: "application_name", Value: "a"}}
	after := []Param{{Name: "server_version", Value: "18.1"}, {Name: "TimeZone", Value: "Asia/Tokyo"}, {Name: "DateStyle", Value: "ISO, DMY"}, {Name: "application_name", Value: "b"}, {Name: "search_path", Value: "x"}}
	for name, tc := range map[string]struct {
		want []Param
		told []Param
	}{
		"defaults": {nil, []Param{after[0], after[1], after[2], after[4]}},
		"its own":  {[]Param{{Name: "timezone", Value: "Europe/Zurich"}, {Name: "search_path", Value: "y"}}, []Param{after[0], after[2]}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 0, tc.want...)
			r.replaced(before...)
			r.client.Told(r.servers[0].s.Facts())
			r.send(select1)
			if list, _ := reports(t, r.out); len(list) != 0 {
				t.Errorf("told %v by the server of its login", list)
			}
			r.replaced(slices.Clone(before)...)
			r.out = nil
			r.send(select1)
			if list, _ := reports(t, r.out); len(list) != 0 {
				t.Errorf("told %v by one like it", list)
			}
			r.replaced(after...)
			r.out = nil
			r.send(select1)
			list, types := reports(t, r.out)
			if !slices.Equal(list, tc.told) {
				t.Errorf("told %v, want %v", list, tc.told)
			}
			if len(types) <= len(list) || types[len(list)] == 'S' || types[0] != 'S' {
				t.Errorf("not before the answer: %s", types)
			}
			r.out = nil
			r.send(select1)
			if list, _ := reports(t, r.out); len(list) != 0 {
				t.Errorf("told %v again", list)
			}
		})
	}
}

// A standby becomes the primary while its connections live: who was bound hears it at once,
// others when they come back to it; and whoever heard it hears it once.
func TestFactsOfAPromotion(t *testing.T) {
	r := newRig(t, 0)
	r.replaced(Param{Name: "in_hot_standby", Value: "on"}, Param{Name: "server_version", Value: "15.2"})
	s := r.servers[0].s
	other := NewClient(r.shared, 0, NoParams())
	r.client.Told(s.Facts())
	other.Told(s.Facts())
	var p Plan
	r.client.Bind(s, &p)
	s.Input(wire.AppendParameterStatus(nil, "in_hot_standby", "off"), &p)
	var out []byte
	for _, span := range p.ToClient {
		out = append(out, span...)
	}
	if list, _ := reports(t, out); len(list) != 1 || list[0].Value != "off" {
		t.Errorf("told %v", list)
	}
	r.client.Unbind()
	for _, c := range []struct {
		*Client
		told int
	}{{r.client, 0}, {other, 1}, {other, 0}, {r.client, 0}} {
		p.Reset()
		c.Bind(s, &p)
		if len(p.ToClient) != c.told {
			t.Errorf("told %q, want %d", p.ToClient, c.told)
		}
		c.Unbind()
	}
	if f := NewServer(r.shared, 0, []Param{{Name: "in_hot_standby", Value: "off"}, {Name: "server_version", Value: "15.2"}}).Facts(); f != s.Facts() {
		t.Error("equal facts are not shared")
	}
}
