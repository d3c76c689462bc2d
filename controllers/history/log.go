package history

import (
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/clusterip-operator/clusterip-operator/internal/history"
)

// Lines of the log about changes: so many a second in the long run, and so many at once. What is
// beyond is counted: a tenant that creates Services over and over fills no disk.
const (
	linesASecond = 10
	linesAtOnce  = 1000
)

// changeLog tells of changes.
type changeLog struct {
	log    logr.Logger
	room   *rate.Limiter
	untold *atomic.Int64
}

func newChangeLog(log logr.Logger) changeLog {
	return changeLog{log, rate.NewLimiter(linesASecond, linesAtOnce), &atomic.Int64{}}
}

// tell writes a line for each record.
func (l changeLog) tell(c change, now time.Time) {
	for _, r := range c.ended {
		l.line(now, history.LineLost, r, "ended", r.Ended)
	}
	for _, r := range c.begun {
		l.line(now, history.LineGot, r, "came", r.Came)
	}
}

func (l changeLog) line(now time.Time, message string, r history.Record, how ...any) {
	if !l.room.AllowN(now, 1) {
		l.untold.Add(1)
		return
	}
	if n := l.untold.Swap(0); n > 0 {
		l.log.Info("Changes of addresses were not logged, because there were too many", "count", n)
	}
	l.log.Info(message, append([]any{"address", r.Address.String(), "service", r.Service.String(), "uid", string(r.UID)}, how...)...)
}
