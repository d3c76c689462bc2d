package zz
import ("testing";"time";"net/netip";"github.com/clusterip-operator/clusterip-operator/proxyagent/model";"github.com/clusterip-operator/clusterip-operator/test/framework/network")
func TestX(t *testing.T){
 b,err:=network.New(t.Context()); if err!=nil{t.Fatal(err)}; defer b.Close()
 for _,f:=range network.Families{
 v:=network.VirtualAddr(f,5)
 c:="iptables"; if f==6 {c="ip6tables"}
 out,err:=b.Node.Run(t.Context(),c,"-A","FORWARD","-d",v.String(),"-j","REJECT"); t.Log(out,err)
 out,err=b.Node.Run(t.Context(),c,"-A","OUTPUT","-d",v.String(),"-j","REJECT"); t.Log(out,err)
 for _,n:=range []*network.Namespace{b.Client,b.Pod1,b.Node}{ s:=time.Now(); t.Log(n.Dial(network.Probe{To:netip.AddrPortFrom(v,80),Timeout:5*time.Second}),time.Since(s)) }}
 _=model.TCP
}
