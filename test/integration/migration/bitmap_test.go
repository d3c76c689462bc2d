package migration_test

import (
	"bytes"
	"context"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// A migrated cluster whose API server still allocates from the bitmaps, which the spec breaks.
var _ = Describe("A bitmap", Ordered, ContinueOnFailure, func() {
	var (
		w         *environment
		nodePorts storage.Value
	)

	BeforeAll(func(ctx SpecContext) {
		w = newEnvironment(ctx, old, 120)
		w.migrated(ctx)
		nodePorts = w.etcd.Get(ctx, nodePortsKey)
	})
	BeforeEach(func(ctx SpecContext) {
		w.heal(ctx) // first, for no API server starts on what a spec may have left
		w.calm(ctx)
	})
	AfterEach(func(ctx SpecContext) {
		Expect(w.etcd.Get(ctx, nodePortsKey)).To(Equal(nodePorts), "the bitmap of node ports was written")
	})

	// repaired wants the bitmaps to be what the Services say.
	repaired := func(ctx context.Context) {
		GinkgoHelper()
		with(clean, w.migrate(ctx, "run", "--repair-bitmap", "--leak-grace=1s"))
		for _, key := range []string{primaryKey, secondaryKey} {
			Expect(w.etcd.legacy(ctx, key).addresses()).To(Equal(w.used(ctx, key)), key)
		}
		w.check(ctx, clean)
	}

	It("is read as the API server wrote it", func(ctx SpecContext) {
		r := w.check(ctx, clean)
		Expect(r.Words()).To(BeEmpty())
		Expect(r.Ranges).To(Equal([]string{range4, range6}))
		Expect(r.Revision).To(BeNumerically(">", 0))
		Expect(r.Bitmaps).To(HaveLen(2))
		for i, key := range []string{primaryKey, secondaryKey} {
			bitmap := r.Bitmaps[i]
			Expect(key).To(HaveSuffix(bitmap.Key))
			Expect(bitmap.Range).To(Equal(r.Ranges[i]))
			Expect(bitmap.Used).To(Equal(len(w.used(ctx, key))))
			Expect(bitmap.ModRevision).To(Equal(w.etcd.Get(ctx, key).Revision))
			Expect(bitmap.Error).To(BeEmpty())
		}
	})

	It("gives leaked bits free", func(ctx SpecContext) {
		lost := []string{w.freeAddress(ctx, "10.96.0."), w.freeAddress(ctx, "fd00:10:96::")}
		w.etcd.flip(ctx, lost[0])
		w.etcd.flip(ctx, lost[1])
		w.untouched(ctx, func() {
			r := w.check(ctx, found)
			Expect(r.Words()).To(ConsistOf("LeakedBit "+lost[0], "LeakedBit "+lost[1]))
			Expect(r.Findings).To(HaveEach(HaveField("Blocks", false)))
			Expect(w.offline(ctx, "check").Stdout).To(And(ContainSubstring(lost[0]), ContainSubstring(lost[1])))
			whole := w.plugin(ctx, framework.PluginOptions{Args: append([]string{"check"}, w.EtcdArgs()...)})
			Expect(whole.ExitCode).To(Equal(1), whole.String())
			Expect(whole.Stdout).To(And(ContainSubstring("LeakedBit"), ContainSubstring(lost[0]), ContainSubstring(lost[1])))
			with(clean, w.migrate(ctx, "run")) // it was not asked to
		})

		repaired(ctx)
		// The API server keeps the bitmap in memory and looks at the stored one when it allocates.
		some := []*corev1.Service{w.CreateService(ctx, "look", framework.RequireDualStack())}
		for i, address := range lost {
			some = append(some, w.HoldAddress(ctx, fmt.Sprintf("found-%d", i), address))
		}
		w.DeleteServices(ctx, some...)
	})

	It("gets missing bits back", func(ctx SpecContext) {
		four, owner4 := w.some(ctx, primaryKey)
		six, owner6 := w.some(ctx, secondaryKey)
		w.etcd.flip(ctx, four)
		w.etcd.flip(ctx, six)
		w.untouched(ctx, func() {
			r := w.check(ctx, found)
			Expect(r.Words()).To(ConsistOf("MissingBit "+four, "MissingBit "+six))
			for _, f := range r.Findings {
				owner := map[string]string{four: owner4, six: owner6}[f.Address]
				Expect(f.Objects).To(ContainElement("Service default/"+owner), "it says whose address is given away")
			}
		})

		repaired(ctx)
		w.noCollision(ctx, "after-missing")
		for _, address := range []string{four, six} {
			_, err := w.TryService(ctx, "thief", framework.WithClusterIPs(address), framework.WithFamilies(framework.FamilyOf(address)))
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", address, err)
			Expect(err).To(MatchError(ContainSubstring("already allocated")))
		}
	})

	// All bits move when bytes are lost at the end, for the number begins with its highest ones.
	It("that lost a byte is made anew", func(ctx SpecContext) {
		bitmap := w.etcd.legacy(ctx, primaryKey)
		bitmap.bits.SetBytes(bitmap.object.Data[:len(bitmap.object.Data)-1])
		w.etcd.plant(ctx, primaryKey, bitmap)
		wrong, right := bitmap.addresses(), w.used(ctx, primaryKey)
		var want []string
		for _, address := range wrong {
			if !slices.Contains(right, address) {
				want = append(want, "LeakedBit "+address)
			}
		}
		for _, address := range right {
			if !slices.Contains(wrong, address) {
				want = append(want, "MissingBit "+address)
			}
		}
		Expect(w.check(ctx, found).Words()).To(ConsistOf(want))
		repaired(ctx)
		w.noCollision(ctx, "after-shift")
	})

	It("without a bit is filled", func(ctx SpecContext) {
		bitmap := w.etcd.legacy(ctx, secondaryKey)
		bitmap.bits.SetInt64(0)
		w.etcd.plant(ctx, secondaryKey, bitmap)
		w.untouched(ctx, func() { Expect(w.check(ctx, found).Words()).To(Equal([]string{"BitmapEmpty"})) })
		repaired(ctx)
		w.noCollision(ctx, "after-empty")
	})

	// Each command that writes checks the bitmaps first, and writes nothing if it cannot read one.
	refusedBy := func(ctx context.Context, status int, kind string, words ...string) {
		GinkgoHelper()
		w.untouched(ctx, func() {
			r := w.check(ctx, status)
			Expect(r.Of(kind)).NotTo(BeEmpty(), "%v", r.Words())
			for _, f := range r.Of(kind) {
				Expect(f.Blocks).To(BeTrue())
				Expect(f.Detail).NotTo(BeEmpty())
				for _, word := range words {
					Expect(f.Detail+strings.Join(f.Objects, ", ")).To(ContainSubstring(word), "%+v", f)
				}
			}
			for _, command := range []framework.PluginResult{
				w.migrate(ctx, "run"), w.migrate(ctx, "run", "--repair-bitmap"), w.offline(ctx, "seed", "--etcd"),
			} {
				Expect(with(refused, command).Stderr).To(ContainSubstring(kind))
			}
		})
	}
	// rebuilt lets rollback, which asks no bitmap, make a new one. What was there is kept in a file.
	rebuilt := func(ctx context.Context, key string, args ...string) {
		GinkgoHelper()
		planted, archive := w.etcd.Get(ctx, key).Raw, filepath.Join(GinkgoT().TempDir(), "archive")
		w.untouched(ctx, func() { with(found, w.offline(ctx, append(args, "rollback", "--archive="+archive)...)) })
		with(clean, w.offline(ctx, append(args, "rollback", "--yes", "--archive="+archive)...))
		archived(archive, planted)
		for _, key := range []string{primaryKey, secondaryKey} {
			Expect(w.etcd.legacy(ctx, key).addresses()).To(Equal(w.used(ctx, key)), key)
		}
		w.check(ctx, clean)
	}
	// changed is the primary bitmap with a fault.
	changed := func(ctx context.Context, change func(legacy)) []byte {
		GinkgoHelper()
		bitmap := w.etcd.legacy(ctx, primaryKey)
		change(bitmap)
		return bitmap.encoded()
	}

	const flags = "--service-cluster-ip-range=" + range4 + "," + range6 // without which two bitmaps that are swapped tell nothing
	DescribeTable("is refused", func(ctx SpecContext, key, kind, word string, broken func(SpecContext) []byte, args ...string) {
		w.etcd.Put(ctx, key, broken(ctx))
		refusedBy(ctx, found, kind, word)
		rebuilt(ctx, key, args...)
	},
		Entry("of random bytes", primaryKey, "BitmapUnreadable", "ranges/serviceips", func(SpecContext) []byte { return noise(300) }),
		Entry("with random bytes in its envelope", primaryKey, "BitmapUnreadable", "ranges/serviceips", func(ctx SpecContext) []byte {
			raw := w.etcd.Get(ctx, primaryKey).Raw
			_, inside := unpack(raw)
			return bytes.Replace(raw, inside, noise(len(inside)), 1)
		}),
		Entry("of no bytes", secondaryKey, "BitmapUnreadable", "empty", func(SpecContext) []byte { return nil }),
		Entry("with bits beyond its range", primaryKey, "BitmapUnreadable", "10.96.255.255", func(ctx SpecContext) []byte {
			return changed(ctx, func(b legacy) { b.bits.SetBit(b.bits, 65534, 1) }) // the broadcast address
		}),
		Entry("of node ports", primaryKey, "BitmapUnreadable", "node ports", func(SpecContext) []byte { return nodePorts.Raw }),
		Entry("of another range", primaryKey, "BitmapForeignRange", "10.97.0.0/16", func(ctx SpecContext) []byte {
			return changed(ctx, func(b legacy) { b.object.Range = "10.97.0.0/16" })
		}, flags),
		Entry("of a range that is none", primaryKey, "BitmapUnreadable", "10.96.0.1/16", func(ctx SpecContext) []byte {
			return changed(ctx, func(b legacy) { b.object.Range = "10.96.0.1/16" })
		}),
		Entry("of the wrong family", secondaryKey, "SecondaryRangeMislabelled", "", func(ctx SpecContext) []byte {
			return w.etcd.Get(ctx, primaryKey).Raw
		}, flags),
	)

	It("in the place of the other is refused", func(ctx SpecContext) {
		four, six := w.etcd.Get(ctx, primaryKey).Raw, w.etcd.Get(ctx, secondaryKey).Raw
		w.etcd.Put(ctx, primaryKey, six)
		w.etcd.Put(ctx, secondaryKey, four)
		refusedBy(ctx, found, "SecondaryRangeMislabelled")
		rebuilt(ctx, primaryKey, flags)
	})

	It("that is encrypted is refused, without a word of what it holds", func(ctx SpecContext) {
		const secret = "c2VjcmV0LWJ5dGVz"
		w.etcd.Put(ctx, primaryKey, []byte("k8s:enc:aescbc:v1:key1:"+secret))
		refusedBy(ctx, refused, "BitmapEncrypted", "aescbc", "key1")
		w.untouched(ctx, func() {
			for _, answer := range []framework.PluginResult{
				w.offline(ctx, "check"), w.offline(ctx, "check", "-o", "yaml"),
				w.offline(ctx, "rollback", "--yes", "--archive="+filepath.Join(GinkgoT().TempDir(), "archive")),
			} {
				Expect(with(refused, answer).String()).NotTo(ContainSubstring(secret))
			}
		})
	})

	It("that was never used is filled", func(ctx SpecContext) {
		w.etcd.plant(ctx, secondaryKey, legacy{object: &corev1.RangeAllocation{}, bits: new(big.Int)})
		w.untouched(ctx, func() { Expect(w.check(ctx, found).Words()).To(Equal([]string{"BitmapEmpty"})) })
		repaired(ctx)
	})

	for _, key := range []string{primaryKey, secondaryKey} {
		It("that is not there is named, and made by rollback: "+key, func(ctx SpecContext) {
			w.etcd.Remove(ctx, key)
			w.untouched(ctx, func() {
				Expect(w.check(ctx, found).Words()).To(Equal([]string{"BitmapMissing"}))
				with(clean, w.migrate(ctx, "run")) // and the ServiceCIDR stays what it is
			})
			with(clean, w.offline(ctx, "rollback", "--yes", "--archive="+filepath.Join(GinkgoT().TempDir(), "archive")))
			Expect(w.etcd.legacy(ctx, key).addresses()).To(Equal(w.used(ctx, key)))
			w.check(ctx, clean)
		})
	}

	// The API server marks an address first and writes the Service after admission: meanwhile the bit
	// is not leaked, though there is no Service.
	It("keeps the bit of a Service that is being created", func(ctx SpecContext) {
		hold, address := w.slowAdmission(ctx), w.freeAddress(ctx, "10.96.0.")
		created := make(chan error, 1)
		go func() {
			_, err := w.TryService(ctx, "slow", framework.WithClusterIPs(address))
			created <- err
		}()
		Eventually(hold.waiting).WithTimeout(cluster.Timeout).Should(BeTrue())
		Expect(w.etcd.legacy(ctx, primaryKey).has(address)).To(BeTrue(), "the fixture: the bit comes first")
		leak := w.freeAddress(ctx, "10.96.1.")
		w.etcd.flip(ctx, leak)

		run := w.begin(ctx, w.options(append(w.EtcdArgs(), "run", "--repair-bitmap", "--leak-grace=5s")...))
		Consistently(run.Done()).WithTimeout(3*time.Second).ShouldNot(BeClosed(), "it must wait before it believes in a leak")
		hold.release()
		Expect(<-created).To(Succeed())
		ends(ctx, run)
		bitmap := w.etcd.legacy(ctx, primaryKey)
		Expect(bitmap.has(address)).To(BeTrue(), "the bit of a Service was taken away")
		Expect(bitmap.has(leak)).To(BeFalse(), "the leak is still there")
		Expect(w.Owner(ctx, address)).To(Equal("default/slow"))
	})

	It("is mended while Services come and go", func(ctx SpecContext) {
		robbed := w.freeAddress(ctx, "10.96.0.") // of the static band: no API server draws it by chance without its bit
		w.HoldAddress(ctx, "robbed", robbed)
		lost := w.freeAddress(ctx, "10.96.0.")
		w.etcd.flip(ctx, lost)
		w.etcd.flip(ctx, robbed)

		var made atomic.Int64
		stop := make(chan struct{})
		crowd := w.crowd(ctx, &made, stop)
		Eventually(made.Load).WithTimeout(cluster.Timeout).Should(BeNumerically(">", 20))
		answer := w.plugin(ctx, watched(w.options(append(w.EtcdArgs(), "run", "--repair-bitmap", "--leak-grace=3s")...)))
		Expect(answer.ExitCode).To(BeElementOf(clean, found), answer.String())
		Eventually(made.Load).WithTimeout(cluster.Timeout).Should(BeNumerically(">", 60))
		close(stop)
		Expect(crowd.Wait()).To(Succeed())

		for address, owners := range w.owners(ctx) {
			Expect(owners).To(HaveLen(1), address)
		}
		// As long as other writers are always faster, the first run says that something is left.
		with(clean, w.migrate(ctx, "run", "--repair-bitmap", "--leak-grace=1s"))
		bitmap := w.etcd.legacy(ctx, primaryKey)
		Expect(bitmap.has(lost)).To(BeFalse())
		Expect(bitmap.addresses()).To(ContainElements(w.used(ctx, primaryKey)), "a Service has lost its bit")
		w.check(ctx, clean)
	})
})

// noCollision allocates in both families, and wants every address to have one Service.
func (w *environment) noCollision(ctx context.Context, name string) {
	GinkgoHelper()
	some := w.CreateServices(ctx, 30, framework.Numbered(cluster.Namespace, name, framework.RequireDualStack()))
	for address, owners := range w.owners(ctx) {
		Expect(owners).To(HaveLen(1), address)
	}
	w.DeleteServices(ctx, some...)
}

// crowd has several clients create and delete Services until it is stopped. A third of them stay.
func (w *environment) crowd(ctx context.Context, made *atomic.Int64, stop <-chan struct{}) *errgroup.Group {
	all := &errgroup.Group{}
	for id := range 4 {
		all.Go(func() error {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return nil
				case <-time.After(100 * time.Millisecond):
				}
				s, err := w.TryService(ctx, fmt.Sprintf("crowd-%d-%d", id, i), framework.RequireDualStack())
				if err != nil {
					return err
				}
				made.Add(1)
				if i%3 != 0 {
					if err := w.Client().CoreV1().Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil {
						return err
					}
				}
			}
		})
	}
	return all
}
