import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { GuestKey } from '../../routes/guest-keys.ts';
import type { OwnKey } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';
import { beyondFields, fieldErrorsOf } from '../api/api-failure.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { useDoing } from '../page/actions.ts';
import { TextField } from '../page/fields.ts';
import { formatCount, formatLimit } from '../page/format.ts';
import { CopyButton } from '../page/identifiers.ts';
import { Failure, LoadedView } from '../page/loaded-view.ts';
import { Figures } from '../page/table.ts';

type Device = { id: string; key: string };

/** Creates the key of a device, or finds it again: both are the same call. */
export function GuestKeys({ api }: { api: Api }) {
  const [typed, setTyped] = useState('');
  const [device, setDevice] = useState<Device>();
  const doing = useDoing(async () => {
    setDevice(undefined);
    const body = { device_id: typed };
    const { key } = await api.call<GuestKey>('/v1/keys/guest', { method: 'POST', body });
    setDevice({ id: typed, key });
  });
  const error = beyondFields(doing.error, ['device_id']);
  return h(
    'section',
    { 'aria-labelledby': 'guest-keys' },
    h('h2', { id: 'guest-keys' }, 'Guest keys'),
    h(
      'p',
      { class: 'lead' },
      'A guest key belongs to one device of an end user. Ship guest keys in your apps, and not your own keys. The same device ID always gets the same key, so you can look it up here again. Device IDs have 8 to 256 visible characters, and are secrets.',
    ),
    h(
      'form',
      { class: 'fields', onSubmit: doing.run },
      h(TextField, {
        label: 'Device ID',
        value: typed,
        change: setTyped,
        error: fieldErrorsOf(doing.error, ['device_id']).device_id,
        input: { required: true, maxLength: 256, spellcheck: false, autocapitalize: 'off' },
      }),
      h('button', { type: 'submit', 'aria-disabled': doing.busy }, 'Get the key'),
    ),
    error !== undefined && h(Failure, { error }),
    device && h(DeviceKey, { key: device.key, api, device, dismiss: () => setDevice(undefined) }),
  );
}

/** The key in full, and what the device has used. */
function DeviceKey({ api, device, dismiss }: { api: Api; device: Device; dismiss: () => void }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const loaded = useLoaded((signal) => api.call<OwnKey>('/v1/key', { key: device.key, signal }), []);
  return h(
    'section',
    { class: 'notice', 'aria-labelledby': 'device-key' },
    h('h2', { id: 'device-key', tabIndex: -1, ref: heading }, `Key of device ${device.id}`),
    h('p', null, h('code', { class: 'key' }, device.key)),
    h(LoadedView<OwnKey>, { loaded, what: "the device's day", children: (own) => h(DeviceFigures, { own }) }),
    h(
      'div',
      { class: 'actions' },
      h(CopyButton, { text: device.key, label: 'Copy the guest key' }),
      h('button', { type: 'button', onClick: loaded.reload }, 'Refresh the figures'),
      h('button', { type: 'button', onClick: dismiss }, 'Hide the guest key'),
    ),
  );
}

function DeviceFigures({ own: { plan, day, usage } }: { own: OwnKey }) {
  const left = day.limit === null ? 'no limit' : formatCount(Math.max(0, day.limit - day.requests));
  return h(Figures, {
    figures: [
      ['Plan', plan],
      ['Requests today (UTC)', formatCount(day.requests)],
      ['Requests a day', formatLimit(day.limit)],
      ['Left today', left],
      ['Requests this month', usage === null ? '–' : formatCount(usage.requests)],
      ['Tokens this month', usage === null ? '–' : formatCount(usage.tokens)],
    ],
  });
}
