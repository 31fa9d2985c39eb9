import type { ConnectionBounds } from '../../ingress/listener/listener.ts';

/** More connections than any test opens. */
export const unboundedConnections: ConnectionBounds = {
  connectionsMax: 10_000,
  perAddressMax: undefined,
  onRefused: () => {},
};
