import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Api } from '../api/api.ts';
import { Failure } from '../page/failure.ts';
import { formatBytes } from '../page/format.ts';
import { useDoing } from '../page/use-doing.ts';
import { saveFile } from './save-file.ts';

/** Saves what the API returns at this path as a file of this name. */
export function DownloadButton({ api, path, name, label }: { api: Api; path: string; name: string; label: string }) {
  const [received, setReceived] = useState(0);
  const leaving = useRef(new AbortController());
  useEffect(() => () => leaving.current.abort(), []);
  const doing = useDoing(async () => {
    setReceived(0);
    const { signal } = leaving.current;
    saveFile(await api.download(path, { progress: setReceived, signal }), name);
  });
  return [
    h('button', { type: 'button', 'aria-disabled': doing.busy, onClick: doing.run }, label),
    h('span', { class: 'unseen', role: 'status' }, doing.busy ? 'Downloading …' : ''), // once, and not each number
    doing.busy && h('span', { class: 'quiet' }, `${formatBytes(received)} received`),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  ];
}
