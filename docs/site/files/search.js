// The index of the search comes when somebody goes to the search, and by a <script>: a page that was opened as a file
// may not fetch. Nor may it start a worker from a file, so there the worker is made of text.
(() => {
  const { base } = document.currentScript.dataset;
  const load = (name) => {
    const script = document.createElement("script");
    script.src = `${base}/${name}`;
    document.head.append(script);
  };

  globalThis.__search = {
    index: new Promise((resolve) => {
      const begin = ({ target }) => {
        if (!target.closest?.(".md-search, [for=__search]")) return;
        for (const event of ["focusin", "pointerdown"]) document.removeEventListener(event, begin);
        globalThis.__searchIndex = resolve;
        load("search/search_index.js");
      };
      for (const event of ["focusin", "pointerdown"]) document.addEventListener(event, begin);
    }),
  };

  if (location.protocol !== "file:") return;
  const RealWorker = Worker;
  const source = new Promise((resolve) => (globalThis.__searchWorker = resolve));
  load("search/search_worker.js");
  globalThis.Worker = class extends EventTarget {
    #worker = source.then((text) => {
      const worker = new RealWorker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
      worker.onmessage = ({ data }) => this.dispatchEvent(new MessageEvent("message", { data }));
      return worker;
    });

    async postMessage(data) {
      (await this.#worker).postMessage(data);
    }
  };
})();
