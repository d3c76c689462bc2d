package main

import (
	"context"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration/condition"
)

// tellCondition writes into the cluster how far it is.
func (m *migrate) tellCondition(ctx context.Context, l *link, p migration.Plan) {
	if p.World.Allocator == migration.AllocatorBitmap && l.Served {
		others := len(p.StopFlip()) - (p.Addresses - p.OK)
		m.courtesy(ctx, condition.Write(ctx, l.API, l.APIVersion, condition.Counted(p.OK, p.Addresses, max(0, others)), l.Clock.Now()))
	}
}

// renewCondition does so where somebody has begun to.
func (m *migrate) renewCondition(ctx context.Context, l *link, c metav1.Condition) {
	if l.Served {
		m.courtesy(ctx, condition.Renew(ctx, l.API, l.APIVersion, c, l.Clock.Now()))
	}
}

// courtesy logs that a condition was not written: a user who may not do it has the output of the command.
func (m *migrate) courtesy(ctx context.Context, err error) {
	if err != nil {
		logr.FromContextOrDiscard(m.logging(ctx)).Info("The condition of ServiceCIDR kubernetes was not written", "because", err.Error())
	}
}
