package bench

// Check is a figure that was promised of a run and what it came to.
type Check struct {
	Target   string `json:"target"`
	What     string `json:"what"` // "goodput, 10-15 s"
	Measured string `json:"measured"`
	Promised string `json:"promised"` // ">= 98/s"
	OK       bool   `json:"ok"`
}
