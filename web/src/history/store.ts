/** Stores chats in IndexedDB, one record each. */
import type { Chat } from "./tree.ts";

const CHATS = "chats";

let opened: Promise<IDBDatabase> | undefined;

function database(): Promise<IDBDatabase> {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("wrinklefree", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(CHATS, { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("IndexedDB cannot be opened"));
  });
  return opened;
}

async function inStore<T>(
  mode: IDBTransactionMode,
  work: (store: IDBObjectStore) => IDBRequest<T>,
): Promise<T> {
  const transaction = (await database()).transaction(CHATS, mode);
  const request = work(transaction.objectStore(CHATS));
  // A transaction that waits for an idle page to be committed is lost if the user reloads or leaves before that.
  transaction.commit();
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () =>
      reject(transaction.error ?? new Error("the transaction was aborted"));
  });
}

export const loadAll = (): Promise<Chat[]> => inStore("readonly", (store) => store.getAll());
export const load = (id: string): Promise<Chat | undefined> =>
  inStore("readonly", (store) => store.get(id));
export const save = (chat: Chat): Promise<unknown> =>
  inStore("readwrite", (store) => store.put(chat));
export const remove = (id: string): Promise<unknown> =>
  inStore("readwrite", (store) => store.delete(id));
