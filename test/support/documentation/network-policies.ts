import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { ofKind, selects, texts } from './manifests.ts';

const selectorSchema = z.strictObject({
  matchLabels: texts.optional(),
  matchExpressions: z
    .array(z.strictObject({ key: z.string(), operator: z.literal('In'), values: z.array(z.string()).min(1) }))
    .optional(),
});
type Selector = z.infer<typeof selectorSchema>;

const peerSchema = z.strictObject({
  podSelector: selectorSchema.optional(),
  namespaceSelector: selectorSchema.optional(),
  ipBlock: z.strictObject({ cidr: z.string(), except: z.array(z.string()).default([]) }).optional(),
});
const portSchema = z.strictObject({
  protocol: z.enum(['TCP', 'UDP']).default('TCP'),
  port: z.union([z.int(), z.string()]),
  endPort: z.int().optional(),
});
// A rule without peers or without ports would allow all of them.
const ports = z.array(portSchema).min(1);
const peers = z.array(peerSchema).min(1);
const policySchema = z.strictObject({
  podSelector: selectorSchema.refine((selector) => Object.keys(selector).length > 0, 'selects every pod'),
  policyTypes: z.array(z.enum(['Ingress', 'Egress'])),
  ingress: z.array(z.strictObject({ from: peers, ports })),
  egress: z.array(z.strictObject({ to: peers, ports })).optional(),
});

/** A pod by its namespace and labels, or an address outside of the cluster. */
export type Party = { namespace: string; labels?: Record<string, string> } | { address: string };
type Port = { port: number | string; protocol?: 'TCP' | 'UDP' };
type Policy = z.infer<typeof policySchema>;

export const policies: readonly Policy[] = ofKind('NetworkPolicy').map(({ spec }) => policySchema.parse(spec));

/** The policies that select a pod of the namespace of the service. */
export function policiesOf(labels: Record<string, string>): Policy[] {
  return policies.filter(({ podSelector }) => matches(podSelector, labels));
}

export const mayConnect = ({ egress = [] }: Policy, to: Party, port: Port) =>
  egress.some((rule) => isAmong(rule.to, to) && hasPort(rule.ports, port));

export const mayBeReached = ({ ingress }: Policy, from: Party, port: Port) =>
  ingress.some((rule) => isAmong(rule.from, from) && hasPort(rule.ports, port));

function hasPort(listed: z.infer<typeof ports>, { port, protocol = 'TCP' }: Port): boolean {
  return listed.some((one) => {
    if (one.protocol !== protocol) return false;
    const { port: first, endPort: last = first } = one;
    return typeof port === 'string' ? first === port : Number(first) <= port && port <= Number(last);
  });
}

function isAmong(listed: readonly z.infer<typeof peerSchema>[], party: Party): boolean {
  return listed.some(({ podSelector, namespaceSelector, ipBlock }) => {
    if ('address' in party) {
      if (ipBlock === undefined) return false;
      const { cidr, except } = ipBlock;
      return isWithin(party.address, cidr) && !except.some((range) => isWithin(party.address, range));
    }
    if (ipBlock !== undefined) return false;
    const isNamespace =
      namespaceSelector === undefined
        ? party.namespace === 'inference'
        : matches(namespaceSelector, { 'kubernetes.io/metadata.name': party.namespace });
    return isNamespace && matches(podSelector ?? {}, party.labels ?? {});
  });
}

function isWithin(address: string, cidr: string): boolean {
  const [ip, [range, bits]] = [ipaddr.parse(address), ipaddr.parseCIDR(cidr)];
  return ip.kind() === range.kind() && ip.match(range, bits);
}

function matches({ matchLabels = {}, matchExpressions = [] }: Selector, labels: Record<string, string>): boolean {
  return (
    selects(matchLabels, labels) && matchExpressions.every(({ key, values }) => values.includes(labels[key] ?? ''))
  );
}
