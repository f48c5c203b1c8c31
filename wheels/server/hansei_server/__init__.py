"""The servers of hansei: each service, the gateway, and all of them in one process (`allinone`)."""
