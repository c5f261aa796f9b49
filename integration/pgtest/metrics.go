package pgtest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Samples are those of one scrape, by their names with labels.
type Samples map[string]float64

// Metrics scrapes the pgweir that serves HTTP at an address: the samples by their names with
// labels. What came before an error is returned with it. It waits for startBound at most.
func Metrics(address string) (Samples, error) {
	client := http.Client{Timeout: startBound, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }() // only read
	b, err := io.ReadAll(r.Body)
	m := make(Samples)
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		if v, bad := strconv.ParseFloat(line[i+1:], 64); bad == nil {
			m[line[:i]] = v
		}
	}
	return m, err
}

// Sum adds up the samples of a metric whose labels contain all of the texts.
func (m Samples) Sum(metric string, with ...string) (sum float64) {
	for name, v := range m {
		if (name == metric || strings.HasPrefix(name, metric+"{")) &&
			!slices.ContainsFunc(with, func(w string) bool { return !strings.Contains(name, w) }) {
			sum += v
		}
	}
	return sum
}

// Books are what of a pgweir must be the same before and after.
type Books struct {
	Goroutines, Descriptors  int // descriptors without those of connections that are meant to be there
	Clients, Waiting         int
	Running, Busy, Open, All int // slots; connections that do something; connections; the budget
}

// Books reads those of a pgweir that serves HTTP at an address.
func (p *Proc) Books(address string) (b Books, err error) {
	m, err := Metrics(address)
	if err != nil {
		return b, err
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Pid()))
	if err != nil {
		return b, err
	}
	b.Clients = int(m.Sum("pgweir_clients"))
	b.Waiting = int(m.Sum("pgweir_waiting_clients"))
	b.Running = int(m.Sum("pgweir_slots", `state="running"`))
	b.Open = int(m.Sum("pgweir_connections"))
	b.Busy = b.Open - int(m.Sum("pgweir_connections", `state="idle"`))
	b.All = int(m.Sum("pgweir_budget_connections"))
	b.Goroutines = int(m.Sum("go_goroutines"))
	b.Descriptors = len(fds) - b.Open - b.Clients
	return b, nil
}

// Same reports whether nothing has leaked between two looks. What was still starting up or
// ending at the first may be less.
func (b Books) Same(before Books) bool {
	return b.Goroutines <= before.Goroutines && b.Descriptors <= before.Descriptors && b.Open <= b.All &&
		b.Clients == before.Clients && b.Waiting == 0 && b.Running == before.Running && b.Busy == before.Busy && b.All == before.All
}
