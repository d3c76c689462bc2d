package zz
import ("testing";"time";"net/netip";"github.com/clusterip-operator/clusterip-operator/proxyagent/model";"github.com/clusterip-operator/clusterip-operator/test/framework/network")
func TestX(t *testing.T){
 b,err:=network.New(t.Context()); if err!=nil{t.Fatal(err)}; defer b.Close()
 run:=func(a ...string){ out,err:=b.Node.Run(t.Context(),a[0],a[1:]...); t.Log(out,err)}
 run("iptables","-A","FORWARD","-m","conntrack","--ctstate","INVALID","-j","ACCEPT")
 run("iptables","-A","FORWARD","-m","conntrack","--ctstate","NEW","-j","ACCEPT")
 from, to := netip.AddrPortFrom(b.Pod2.Addr(4), 1234), netip.AddrPortFrom(b.Client.Addr(4), 1234)
 for _,fl:=range []byte{3}{
 b.Pod2.SendRaw("eth0", b.Node, "pod2", network.TCPSegment(from, to, fl, 1))
 time.Sleep(50*time.Millisecond)
 t.Log(fl)
 run("iptables","-nvxL","FORWARD")}
 run("conntrack","-L")
 c,r:=b.Pod2.Connect(network.Probe{To: netip.AddrPortFrom(b.RemotePod.Addr(4), 8080)}); t.Log(c!=nil,r)
 for _,fl:=range []byte{2,3,16,1} { b.Pod2.SendRaw("eth0", b.Node, "pod2", network.TCPSegment(netip.AddrPortFrom(b.Pod2.Addr(4), 1300+uint16(fl)), netip.AddrPortFrom(b.RemotePod.Addr(4), 8080), fl, 1)) }
 time.Sleep(50*time.Millisecond)
 run("sh","-c","conntrack -L 2>&1; conntrack -L -p tcp; iptables -nvxL FORWARD; iptables -V; iptables-save; nft list ruleset | head -40; cat /proc/sys/net/netfilter/nf_conntrack_tcp_ignore_invalid_rst /proc/sys/net/netfilter/nf_conntrack_checksum")
 _=model.TCP
}
