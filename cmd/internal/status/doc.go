// Package status is what pgweir tells over HTTP: metrics, health, a page to look at, and on
// another listener what only an administrator may do. It also speaks to systemd.
//
// Nothing here is on the path of a transaction. A scrape is one snapshot, turned into metrics
// on the goroutine of the request; the page is fed by a sampler that takes one snapshot a
// second while somebody looks and none otherwise, however many look. Whether pgweir is alive
// is asked of the event loop, whether it is ready never of Postgres.
//
// Everything that a stranger can cause is bounded: connections, header bytes, the time of
// each request, scrapes at once, the number of series.
package status
