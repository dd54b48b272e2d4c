"""What a reader of the dashboards can choose."""

from llmgw.observability.panel import Variable

NODE = Variable("node", "llmgw_node_state", "node", "Node")
GPU = Variable("gpu", 'llmgw_gpu_info{node=~"$node"}', "gpu", "GPU")
MODEL = Variable("model", "llmgw_replicas_wanted", "model", "Model")
FABRIC = Variable("fabric", "llmgw_fabric_nodes", "fabric", "Fabric")
