# levels with >=10 speakers: memory/time at library level
from h import *
import sys,time,resource
G=int(sys.argv[1]); 
rng=np.random.default_rng(0); K=G*10
s=np.arange(K); w=np.full(K,12); e=rng.poisson(2,K); l=[f"l{k%G}" for k in range(K)]
d=utter(e,w,s,{"g":l}); t=time.time()
try:
    go(d,bootstrap=2000,permutations=2000)
except BaseException as x: print(type(x),str(x)[:200])
print(G,"levels",K,"rows",round(time.time()-t,1),"s",resource.getrusage(resource.RUSAGE_SELF).ru_maxrss//1024,"MB")
