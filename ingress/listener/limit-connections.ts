import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { networkOf } from './client-address.ts';

export type ConnectionBounds = {
  connectionsMax: number;
  /** For one IPv4 address or IPv6 /64; undefined behind our own proxies, because all connections come from them. */
  perAddressMax: number | undefined;
  /** Called for each connection that is closed at once. */
  onRefused: () => void;
};

/**
 * Closes connections beyond the bounds before a byte is read (contract.md#l3-connections). There is no request yet that could be answered.
 */
export function limitConnections(server: Server, { connectionsMax, perAddressMax, onRefused }: ConnectionBounds): void {
  const ofAddress = new Map<string, number>();
  server.maxConnections = connectionsMax;
  server.on('drop', onRefused);
  if (perAddressMax === undefined) return;

  server.on('connection', (socket: Socket) => {
    const address = networkOf(socket.remoteAddress ?? 'unknown');
    const connections = (ofAddress.get(address) ?? 0) + 1;
    if (connections > perAddressMax) {
      onRefused();
      socket.destroy();
      return;
    }
    ofAddress.set(address, connections);
    socket.once('close', () => {
      const left = (ofAddress.get(address) ?? 0) - 1;
      if (left > 0) ofAddress.set(address, left);
      else ofAddress.delete(address);
    });
  });
}
