package pgtest

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Metrics scrapes the pgweir that serves HTTP at an address: the samples by their names with
// labels. What came before an error is returned with it. It waits for startBound at most.
func Metrics(address string) (map[string]float64, error) {
	client := http.Client{Timeout: startBound, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }() // only read
	b, err := io.ReadAll(r.Body)
	m := make(map[string]float64)
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
