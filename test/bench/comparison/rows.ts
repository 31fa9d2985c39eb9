import type { Gateway } from '../gateways/gateway.ts';
import { litellmRow, litellmVersion } from '../gateways/litellm.ts';
import { bareBackend, bareProxy, type Place } from '../gateways/places.ts';
import { portkeyRow, portkeyVersion } from '../gateways/portkey.ts';
import { smgRow, smgVersion } from '../gateways/smg.ts';
import { serviceRow } from '../gateways/start-service.ts';

export type Row = {
  name: string;
  does: string;
  isPeer?: boolean;
  start(place: Place & { peers: string }): Promise<Gateway>;
};

export const names = {
  backend: 'bare backend',
  proxy: 'bare Koa proxy',
  one: 'this service, 1+1',
  two: 'this service, 2+2',
  portkey: `Portkey ${portkeyVersion}`,
  litellm: `LiteLLM ${litellmVersion}`,
  smg: `SMG ${smgVersion}`,
} as const;

export const isOurs = (row: string) => row === names.one || row === names.two;

const everything = 'keys, all limits, month, queue, usage records, log of requests';

export const rows: readonly Row[] = [
  { name: names.backend, does: 'the model server itself', start: bareBackend },
  { name: names.proxy, does: 'passes on', start: bareProxy },
  {
    name: names.one,
    does: `one ingress, one worker: ${everything}`,
    start: (place) => serviceRow({ ...place, name: 'one-and-one' }),
  },
  {
    name: names.two,
    does: `two ingresses, two workers: ${everything}`,
    start: (place) => serviceRow({ ...place, name: 'two-and-two', ingresses: 2, workers: 2 }),
  },
  { name: names.portkey, does: 'one process, checks nothing', isPeer: true, start: portkeyRow },
  {
    name: names.litellm,
    does: 'two workers, a client key, its limits in Redis, no log of requests',
    isPeer: true,
    start: litellmRow,
  },
  { name: names.smg, does: 'one process in Rust, one key, no limits, no accounting', isPeer: true, start: smgRow },
];
