package api

// LogLevel is how much the daemon logs.
type LogLevel struct {
	Level string `json:"level" enum:"debug,info,warn,error" doc:"The least important lines that are written."`
}
